"""The price list of a chaos run: what a GPU costs an hour, by time. It changes, also for the past."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

from gpuledger.contract.money import NANO_PER_UNIT, cost, nano_from_decimal
from gpuledger.contract.windows import NS_PER_S

FIRST_NANO_PER_HOUR = nano_from_decimal("12.29")


class PriceLine:
    """Stretches of time at one price each, without a gap; the last one has no end."""

    def __init__(self) -> None:
        self._pieces = [(0, FIRST_NANO_PER_HOUR)]  # where it begins (Unix ns), nano per hour

    def change(self, from_ns: int, to_ns: int | None, nano_per_hour: int) -> None:
        """Another price from an instant on, until one (excluded) or for good. Whole seconds."""
        behind = [] if to_ns is None else [(to_ns, self._at(to_ns))]
        behind += [piece for piece in self._pieces if to_ns is not None and piece[0] > to_ns]
        before = [piece for piece in self._pieces if piece[0] < from_ns]
        self._pieces = [*before, (from_ns, nano_per_hour), *behind]

    def owed(self, start_ns: int, end_ns: int) -> int:
        """What one GPU costs in [start_ns, end_ns), in nano."""
        bounds = [*(start for start, _ in self._pieces), max(end_ns, self._pieces[-1][0])]
        return sum(
            cost(price, max(first, start_ns), max(min(last, end_ns), first, start_ns))
            for (first, last), (_, price) in zip(pairwise(bounds), self._pieces, strict=True)
        )

    def document(self) -> str:
        """As people write it."""
        lines = ["kind: prices", "currency: USD", "prices:"]
        ends: list[int | None] = [start for start, _ in self._pieces[1:]]
        for number, ((start, price), end) in enumerate(zip(self._pieces, [*ends, None], strict=True)):
            times = f", effective_from: {_instant(start)}" if start else ""
            times += f", effective_to: {_instant(end)}" if end is not None else ""
            amount = Decimal(price) / NANO_PER_UNIT
            lines.append(f"  - {{id: p{number}, per: gpu, price_per_hour: {amount}{times}}}")
        return "\n".join(lines) + "\n"

    def _at(self, at_ns: int) -> int:
        return next(price for start, price in reversed(self._pieces) if start <= at_ns)


def _instant(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
