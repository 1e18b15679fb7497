"""What a price list looks like in YAML; docs/prices.md explains it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from gpuledger.contract.capacity import capacity_word
from gpuledger.pricing.yaml_values import (
    Amount,
    Currency,
    Id,
    Instant,
    Markup,
    Minute,
    Rate,
    Ratio,
    Strict,
)

WHOLE_PPB = 1_000_000_000
COMMITMENT_PRIORITY = 10  # what is paid for anyway goes before what is bought by the hour
MAX_QUANTITY = 1_000_000


def _capacity(value: object) -> object:
    return capacity_word(value) if isinstance(value, str) else value


class PriceMatch(Strict):
    """What a price applies to; what is left out is any."""

    cluster: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    capacity_type: Annotated[str, BeforeValidator(_capacity)] = ""
    node_pool: str = ""
    gpu_model: str = ""
    mig_profile: str = ""


class Priced(Strict):
    """What every kind of price says: what it is for, what it applies to, and how a node's is divided."""

    id: Id
    per: Literal["gpu", "node"]
    currency: Currency | None = None
    match: PriceMatch = PriceMatch()
    priority: int = Field(default=0, ge=-1000, le=1000)
    gpus_per_node: int = Field(default=0, ge=0, le=1024)
    gpu_share: Ratio = WHOLE_PPB
    source: str = ""

    @model_validator(mode="after")
    def _divided(self) -> Priced:
        if self.per == "gpu" and (self.gpus_per_node or self.gpu_share != WHOLE_PPB):
            raise ValueError("gpus_per_node and gpu_share belong to a price per node")
        return self


class Dated(Priced):
    """A price that holds for a time."""

    effective_from: Instant = 0
    effective_to: Instant | None = None

    @model_validator(mode="after")
    def _forwards(self) -> Dated:
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        return self


class Price(Dated):
    """A price. ``price_per_hour`` is the list price of one GPU, or of one node, before the discount."""

    price_per_hour: Amount
    discount: Ratio = 0
    commitment: str = ""
    kind: Literal["list", "negotiated", "commitment", "spot", "owned"] = "list"
    details: dict[str, str] = Field(default_factory=dict)


class SpotPrice(Strict):
    """The price from an instant to the next one of the series."""

    since: Instant = Field(alias="from")
    price_per_hour: Amount


class SpotSeries(Priced):
    """Spot prices of one market as they were, known up to an instant; what is later is provisional."""

    match: PriceMatch = Field(default=PriceMatch(), validate_default=True)
    prices: Annotated[list[SpotPrice], Field(min_length=1)]
    known_until: Instant
    effective_to: Instant | None = None

    @field_validator("match")
    @classmethod
    def _spot(cls, value: PriceMatch) -> PriceMatch:
        if value.capacity_type not in ("", "spot"):
            raise ValueError("a spot series is for capacity_type spot; leave it out")
        return value.model_copy(update={"capacity_type": "spot"})

    @model_validator(mode="after")
    def _in_order(self) -> SpotSeries:
        for before, after in pairwise(self.prices):
            if after.since <= before.since:
                raise ValueError("the prices must be in order of time, each from a later instant")
        if self.known_until <= self.prices[-1].since:
            raise ValueError("known_until is not after the last price's from")
        if self.effective_to is not None and self.effective_to <= self.prices[-1].since:
            raise ValueError("effective_to is not after the last price's from")
        return self


class OwnedHardware(Dated):
    """Own machines: what they cost an hour follows from purchase, lifetime, power and overhead."""

    purchase_price: Amount
    residual_value: Amount = 0
    in_service: Instant
    lifetime_years: int = Field(ge=1, le=50)
    watts: int = Field(ge=0, le=1_000_000)
    power_price_per_kwh: Amount
    overhead: Markup = 0

    @model_validator(mode="after")
    def _sensible(self) -> OwnedHardware:
        if self.residual_value > self.purchase_price:
            raise ValueError("residual_value is above purchase_price")
        if self.effective_to is not None and self.effective_to <= self.in_service:
            raise ValueError("effective_to is not after in_service")
        return self


class Commitment(Dated):
    """A rate for what a rule names, paid for ``quantity`` nodes (or GPUs) whether they are used or not."""

    price_per_hour: Amount
    quantity: int = Field(ge=1, le=MAX_QUANTITY)
    effective_from: Minute
    effective_to: Minute
    priority: int = Field(default=COMMITMENT_PRIORITY, ge=-1000, le=1000)


class ExchangeRate(Strict):
    """Units of ``to`` for one of ``from``, from a whole minute on."""

    from_currency: Currency = Field(alias="from")
    to_currency: Currency = Field(alias="to")
    effective_from: Minute = 0
    rate: Rate
    source: str = ""


class PricesDocument(Strict):
    """``kind: prices``."""

    kind: Literal["prices"]
    currency: Currency = "USD"
    prices: list[Price] = Field(default_factory=list)
    spot: list[SpotSeries] = Field(default_factory=list)
    owned: list[OwnedHardware] = Field(default_factory=list)
    commitments: list[Commitment] = Field(default_factory=list)
    rates: list[ExchangeRate] = Field(default_factory=list)
