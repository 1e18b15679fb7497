"""What a price list and a team map look like in YAML; see docs and deploy/examples/."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.windows import MINUTE_NS, NS_PER_S
from gpuledger.pricing.currencies import FOREVER_NS

PLAIN_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,18})?")  # what no price exceeds
MAX_NANO = (1 << 62) - 1  # an Avro long with room to spare: 4.6 thousand million units an hour


def instant_ns(value: Any) -> int:
    """ns since the Unix epoch of ``2025-07-01T00:00:00Z`` or of a day (its midnight UTC)."""
    text = str(value)
    try:
        day = date.fromisoformat(text)
        at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is no instant such as 2025-07-01T00:00:00Z") from error
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write 2025-07-01T00:00:00Z")
    whole = at.replace(microsecond=0)
    seconds = int(whole.timestamp())
    if seconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    if seconds * NS_PER_S >= FOREVER_NS:
        raise ValueError(f"{text!r} is beyond 2116; leave out an end that is not known")
    return seconds * NS_PER_S + at.microsecond * 1000


def plain_nano(value: Any, what: str) -> int:
    """1e-9 of a plain decimal number, never through a float; no exponent, no sign."""
    if not isinstance(value, str) or not PLAIN_NUMBER.fullmatch(value):
        raise ValueError(f"must be {what}")
    return nano_from_decimal(value)


def amount(value: Any) -> int:
    """Nano of an amount such as ``98.32``."""
    nano = plain_nano(value, "an amount such as 98.32")
    if nano > MAX_NANO:
        raise ValueError(f"{value} is outside 0 .. {MAX_NANO // NS_PER_S}")
    return nano


def ratio_ppb(value: Any) -> int:
    """1e-9 of a ratio such as ``0.85``."""
    ppb = plain_nano(value, "a ratio such as 0.85")
    if ppb > 1_000_000_000:
        raise ValueError("must be a ratio from 0 to 1")
    return ppb


def rate(value: Any) -> int:
    """1e-9 of an exchange rate."""
    nano = plain_nano(value, "a rate such as 1.0853")
    if not 0 < nano <= MAX_NANO:
        raise ValueError("must be a rate above 0")
    return nano


Instant = Annotated[int, BeforeValidator(instant_ns)]
Amount = Annotated[int, BeforeValidator(amount)]
Ratio = Annotated[int, BeforeValidator(ratio_ppb)]
Rate = Annotated[int, BeforeValidator(rate)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/+-]{0,99}$")]


class Strict(BaseModel):
    """A mapping in which an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PriceMatch(Strict):
    """What a price applies to; what is left out is any."""

    cluster: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    node_pool: str = ""
    gpu_model: str = ""
    mig_profile: str = ""


class Price(Strict):
    """A price. ``price_per_hour`` is the list price of one GPU, or of one node, before the discount."""

    id: Id
    per: Literal["gpu", "node"]
    price_per_hour: Amount
    currency: Currency | None = None
    match: PriceMatch = PriceMatch()
    effective_from: Instant = 0
    effective_to: Instant | None = None
    priority: int = Field(default=0, ge=-1000, le=1000)
    gpus_per_node: int = Field(default=0, ge=0, le=1024)
    gpu_share: Ratio = 1_000_000_000
    discount: Ratio = 0
    commitment: str = ""
    kind: Literal["list", "negotiated", "commitment", "spot", "owned"] = "list"
    details: dict[str, str] = {}
    source: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Price:
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        if self.per == "gpu" and (self.gpus_per_node or self.gpu_share != 1_000_000_000):
            raise ValueError("gpus_per_node and gpu_share belong to a price per node")
        return self


class ExchangeRate(Strict):
    """Units of ``to`` for one of ``from``, from a whole minute on."""

    from_currency: Currency = Field(alias="from")
    to_currency: Currency = Field(alias="to")
    effective_from: Instant = 0
    rate: Rate
    source: str = ""

    @field_validator("effective_from")
    @classmethod
    def _whole_minute(cls, value: int) -> int:
        return whole_minute(value)


def whole_minute(value: int) -> int:
    """Itself, or ValueError: rates and team rules change at whole minutes, so that no window straddles."""
    if value % MINUTE_NS:
        raise ValueError("must be a whole minute (UTC)")
    return value


class PricesDocument(Strict):
    """``kind: prices``."""

    kind: Literal["prices"]
    currency: Currency = "USD"
    prices: list[Price]
    rates: list[ExchangeRate] = []


class TeamMatch(Strict):
    """Which consumers a rule is for; what is left out is any. A namespace or owner name may end in ``*``."""

    cluster: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_kind: str = ""
    owner_name: str = ""
    node_pool: str = ""
    consumer_kind: Literal["", "pod", "host_process", "slurm_job", "systemd", "container", "pool"] = ""


class TeamRuleModel(Strict):
    """A rule: a team by name, or by the value of a pod label."""

    id: Id
    team: str = ""
    from_label: str = ""
    cost_centre: str = ""
    match: TeamMatch = TeamMatch()
    priority: int = Field(default=0, ge=-1000, le=1000)
    effective_from: Instant = 0
    effective_to: Instant | None = None

    @field_validator("effective_from", "effective_to")
    @classmethod
    def _whole_minute(cls, value: int | None) -> int | None:
        return None if value is None else whole_minute(value)

    @model_validator(mode="after")
    def _consistent(self) -> TeamRuleModel:
        if bool(self.team) == bool(self.from_label):
            raise ValueError("give either team or from_label")
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        return self


class TeamsDocument(Strict):
    """``kind: teams``."""

    kind: Literal["teams"]
    default_team: str = ""
    rules: list[TeamRuleModel] = []
