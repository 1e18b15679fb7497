"""What the devices of a table cost. Nodes of one kind have the same prices in the same window."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.attribution.abreast.divided import Costs
from gpuledger.attribution.abreast.integers import LARGEST_QUOTIENT
from gpuledger.attribution.abreast.table import Table
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.settle import Ledger
from gpuledger.contract.columns import longs
from gpuledger.pricing import Cost, PricedDevice

NO_TIME = 0, 0, 0


def costs_of(
    table: Table, chosen: Sequence[bool], ready: Sequence[Prepared], ledgers: Sequence[Ledger]
) -> Costs:
    """The costs of the devices chosen; without GPU time where they are beyond what columns can divide."""
    amounts: list[tuple[int, int, int]] = []
    found: list[Cost | None] = []
    known: dict[object, tuple[Cost, int]] = {}
    row = 0
    for frame, index in zip(table.frames, table.windows, strict=True):
        book, (start, end) = ledgers[index].book, ready[index].window.life_ns
        last: PricedDevice | None = None  # the device before, where others may cost the same
        by_gpu = False
        kind: object = None
        for device in frame.pieces:
            chosen_here = chosen[row]
            row += 1
            if not chosen_here:
                found.append(None)
                amounts.append(NO_TIME)
                continue
            priced = device.pieces[0].slot.priced
            if last is None or not by_gpu or not priced.is_like(last):
                of_kind = book.kind(priced, start, end)
                by_gpu, last = not isinstance(of_kind, PricedDevice), priced
                kind = id(book), start, end, of_kind
            both = known.get(kind)
            if both is None:
                both = known[kind] = book.cost(priced, start, end), priced.gpu_ns(start, end)
            cost, span = both
            values = span, cost.nano, cost.unpriced_gpu_ns
            found.append(cost)
            amounts.append(values if all(0 <= value < LARGEST_QUOTIENT for value in values) else NO_TIME)
    time, nano, unpriced = longs(amounts).reshape(-1, 3).T.copy()
    return Costs(time, nano, unpriced, found)
