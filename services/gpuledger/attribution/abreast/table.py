"""The devices of a pass that may be charged abreast, and who may have a row on each, by number.

A *claim* is a (device, seat) of a window; claims are numbered through all windows in the order of their rows,
so that what is known of them lies in columns as long as there are claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.frame_columns import DeviceFacts, HolderFacts
from gpuledger.attribution.frames import Frame
from gpuledger.attribution.gather import Pass, Prepared
from gpuledger.contract.columns import Longs, longs

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Table:
    """Columns by device: ``window`` is its number among ``windows``, which has the numbers in the pass,
    ``place`` the device's in the pass, ``claim`` its first claim, ``row_of_place`` the way back, -1 for all
    others. Columns by pair of the pass: ``claim_of_pair``, -1 for others, ``fits`` and ``witnessed`` as in
    the frame. ``first_claim`` and ``first_row`` are by window, with one more at the end; ``unknown`` is the
    place of the device that is not known, by window."""

    frames: list[Frame]
    windows: list[int]
    window: Longs
    place: Longs
    claim: Longs
    facts: DeviceFacts
    holders: HolderFacts  # with the row in the table in place of the device, the claim in place of the seat
    row_of_place: Longs
    claim_of_pair: Longs
    fits: Bools
    witnessed: Bools
    first_claim: Longs
    first_row: Longs
    unknown: Longs

    @property
    def claims(self) -> int:
        """How many there are."""
        return int(self.first_claim[-1])

    def row_of_claim(self) -> Longs:
        """The device of each claim."""
        return np.repeat(np.arange(len(self.claim)), np.diff(np.append(self.claim, self.claims)))


def table_of(ready: Sequence[Prepared], columns: Pass) -> Table | None:
    """The table of a pass; None where no window of it has a frame."""
    windows = [index for index, prepared in enumerate(ready) if prepared.frame is not None]
    if not windows:
        return None
    frames = [frame for prepared in ready if (frame := prepared.frame) is not None]
    devices = longs([len(frame.pieces) for frame in frames])
    seats = longs([len(frame.seats) for frame in frames])
    held = longs([len(frame.holders.device) for frame in frames])
    pairs = longs([len(frame.pairs.place) for frame in frames])
    first_row, first_claim = _starts(devices), _starts(devices * seats)
    first_device = longs([ready[index].first_device for index in windows])
    first_pair = longs([ready[index].first_pair for index in windows])
    number = _within(devices)
    window = np.repeat(np.arange(len(windows)), devices)
    place = first_device[window] + number
    row_of_place = np.full(columns.devices, -1)
    row_of_place[place] = np.arange(len(place))
    facts = DeviceFacts(*_joined([frame.devices for frame in frames]))
    holders = HolderFacts(*_joined([frame.holders for frame in frames]))
    of_holder = np.repeat(np.arange(len(windows)), held)
    holders = holders._replace(
        device=first_row[of_holder] + holders.device,
        seat=first_claim[of_holder] + holders.device * seats[of_holder] + holders.seat,
    )
    place_of_pair, fits, witnessed = _joined([frame.pairs for frame in frames])
    at = np.repeat(first_pair, pairs) + _within(pairs)
    claim_of_pair = np.full(columns.pairs, -1)
    claim_of_pair[at] = np.where(place_of_pair < 0, -1, place_of_pair + np.repeat(first_claim[:-1], pairs))
    return Table(
        frames=frames,
        windows=windows,
        window=window,
        place=place,
        claim=first_claim[window] + number * seats[window],
        facts=facts,
        holders=holders,
        row_of_place=row_of_place,
        claim_of_pair=claim_of_pair,
        fits=_laid(fits, at, columns.pairs),
        witnessed=_laid(witnessed, at, columns.pairs),
        first_claim=first_claim,
        first_row=first_row,
        unknown=first_device + devices,
    )


def _joined(parts: Sequence[tuple[npt.NDArray[Any], ...]]) -> list[npt.NDArray[Any]]:
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _starts(counts: Longs) -> Longs:
    return np.concatenate((longs([0]), np.cumsum(counts)))


def _within(counts: Longs) -> Longs:
    """0, 1, ... of each run of so many."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)


def _laid(values: Bools, at: Longs, size: int) -> Bools:
    laid = np.zeros(size, bool)
    laid[at] = values
    return laid
