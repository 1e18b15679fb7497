"""Where SM-time is shared, and which part of the SMs each process may use there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.pieces import is_open
from gpuledger.attribution.sharing import SM_UNITS, Percentages
from gpuledger.attribution.views import CellMap
from gpuledger.contract.columns import longs


def percentages_of(windows: Sequence[Prepared], mapped: CellMap, pairs: int) -> Percentages | None:
    """The stated percentages by cell and pair; None where no device of the pass shares SM-time."""
    by_sm = np.zeros(len(mapped.piece), bool)
    keys: list[int] = []
    units: list[int] = []
    for prepared in windows:
        for number, device in enumerate(prepared.devices):
            if not any(piece.slot.by_sm_time for piece in device.pieces):
                continue
            place = prepared.first_device + number
            first, last = int(mapped.cells.first[place]), int(mapped.cells.first[place + 1])
            for cell in range(first, last):
                piece = device.pieces[int(mapped.piece[cell])]
                if not (piece.slot.by_sm_time and is_open(piece)):
                    continue
                by_sm[cell] = True
                stated = {item.consumer: item for item in piece.holding.entitlements if item.percentages}
                for process in range(len(prepared.people.processes) if stated else 0):
                    entitlement = stated.get(prepared.people.consumer(process))
                    if entitlement is not None:
                        percentage = entitlement.percentage_of(prepared.container(process))
                        keys.append(cell * pairs + prepared.pair(process, number))
                        units.append(max(1, round(percentage / 100 * SM_UNITS)))
    if not by_sm.any():
        return None
    order = np.argsort(longs(keys), kind="stable")
    return Percentages(by_sm, longs(keys)[order], longs(units)[order], pairs)
