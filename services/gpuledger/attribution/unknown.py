"""Calls of which the agent could not say the device."""

from __future__ import annotations

import numpy as np

from gpuledger.attribution.gather import Pass


def resolve_unknown(columns: Pass) -> None:
    """Give calls whose device is not known to the only device that they can have been for.

    That is the one device on which the process is known otherwise in the window; else the one that its
    consumer holds. Where there are several, the calls stay with no device.
    """
    used = np.flatnonzero(np.bincount(columns.pair, minlength=columns.pairs)).tolist()
    remap: dict[int, int] = {}
    by_process: dict[tuple[int, int], set[int]] = {}
    at = 0
    for pair in used:
        while pair >= columns.windows[at].first_pair + columns.windows[at].pairs:
            at += 1
        process, device = divmod(pair - columns.windows[at].first_pair, columns.windows[at].width)
        by_process.setdefault((at, process), set()).add(device)
    for (index, process), devices in by_process.items():
        prepared = columns.windows[index]
        if prepared.unknown not in devices:
            continue
        possible = devices - {prepared.unknown}
        possible |= {number for number, there in prepared.resident.items() if process in there}
        possible -= {prepared.unknown}
        if not possible:
            key = prepared.people.consumer(process)
            possible = {
                number
                for number, device in enumerate(prepared.devices)
                for piece in device.pieces
                if any(item.consumer == key for item in piece.holding.entitlements)
            }
        if len(possible) == 1:
            remap[prepared.pair(process, prepared.unknown)] = prepared.pair(process, min(possible))
    if remap:
        table = np.arange(columns.pairs, dtype=np.int32)
        table[list(remap)] = list(remap.values())
        columns.pair[:] = table[columns.pair]
