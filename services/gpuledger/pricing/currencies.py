"""Exchange rates: dated, applied to the unit price, never to an amount."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import CurrencyRate, PriceEntry

FOREVER_NS = 1 << 62  # beyond any instant of the ledger


class Segment(NamedTuple):
    """A stretch of an entry at one unit price in the book's currency."""

    start_ns: int
    end_ns: int
    unit_price_nano_per_hour: int


def half_even(value: Fraction) -> int:
    """The nearest integer, ties to the even one."""
    return round(value)


def unit_price_segments(entry: PriceEntry, currency: str, rates: Sequence[CurrencyRate]) -> list[Segment]:
    """The entry's effective time with its unit price in ``currency``.

    An entry in another currency is cut at each change of rate; before its first rate it has no price.
    """
    start = entry.effective_from_ns
    end = FOREVER_NS if entry.effective_to_ns is None else entry.effective_to_ns
    if entry.currency == currency:
        return [Segment(start, end, entry.unit_price_nano_per_hour)]
    dated = sorted(
        (rate.effective_from_ns, rate.rate_nano)
        for rate in rates
        if rate.from_currency == entry.currency and rate.to_currency == currency
    )
    segments = []
    for index, (since, rate) in enumerate(dated):
        until = dated[index + 1][0] if index + 1 < len(dated) else FOREVER_NS
        low, high = max(start, since), min(end, until)
        if low < high:
            price = half_even(Fraction(entry.unit_price_nano_per_hour * rate, NANO_PER_UNIT))
            segments.append(Segment(low, high, price))
    return segments
