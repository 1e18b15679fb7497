"""Values of documents: instants, amounts, ratios, names. No number is ever a float."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.windows import MINUTE_NS, NS_PER_S
from gpuledger.pricing.currencies import FOREVER_NS

PLAIN_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,18})?")  # what no price exceeds
MAX_MARKUP_PPB = 10_000_000_000  # what costs eleven times its purchase is a mistake in the units
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


def markup_ppb(value: Any) -> int:
    """1e-9 of what is added on top, such as ``0.35``; above 1 for what more than doubles."""
    ppb = plain_nano(value, "a ratio such as 0.35")
    if ppb > MAX_MARKUP_PPB:
        raise ValueError("must be a ratio from 0 to 10")
    return ppb


def whole_minute(value: int) -> int:
    """Itself, or ValueError: rates and team rules change at whole minutes, so that no window straddles."""
    if value % MINUTE_NS:
        raise ValueError("must be a whole minute (UTC)")
    return value


Instant = Annotated[int, BeforeValidator(instant_ns)]
Minute = Annotated[int, BeforeValidator(instant_ns), AfterValidator(whole_minute)]
Amount = Annotated[int, BeforeValidator(amount)]
Ratio = Annotated[int, BeforeValidator(ratio_ppb)]
Markup = Annotated[int, BeforeValidator(markup_ppb)]
Rate = Annotated[int, BeforeValidator(rate)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/+-]{0,99}$")]


class Strict(BaseModel):
    """A mapping in which an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)
