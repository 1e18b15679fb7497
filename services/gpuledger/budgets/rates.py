"""Exchange rates of the price book, applied to amounts that were charged in another currency."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import CurrencyRate
from gpuledger.pricing.currencies import half_even


class Rates:
    """The dated exchange rates of one version of the price book."""

    def __init__(self, rates: Iterable[CurrencyRate] = ()) -> None:
        self._dated: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for rate in sorted(rates, key=lambda rate: rate.effective_from_ns):
            pair = (rate.from_currency, rate.to_currency)
            self._dated.setdefault(pair, []).append((rate.effective_from_ns, rate.rate_nano))

    def convert(self, nano: int, source: str, target: str, at_ns: int) -> int | None:
        """An amount in another currency, rounded half even; by the rate back where there is no other. None
        where no rate leads there at that instant."""
        if source == target or not nano:
            return nano
        rate = self._rate(source, target, at_ns)
        if rate is not None:
            return half_even(Fraction(nano * rate, NANO_PER_UNIT))
        back = self._rate(target, source, at_ns)
        return None if not back else half_even(Fraction(nano * NANO_PER_UNIT, back))

    def _rate(self, source: str, target: str, at_ns: int) -> int | None:
        found = None
        for since_ns, rate_nano in self._dated.get((source, target), ()):
            if since_ns > at_ns:
                break
            found = rate_nano
        return found
