"""What is known of each piece of each device: the silicon's values and the processes' parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.gather import Pass, Prepared
from gpuledger.attribution.pieces import is_open
from gpuledger.attribution.samples import Hole, Samples, cell_means, holes, of_field
from gpuledger.attribution.seen import DeviceView, ProcessView
from gpuledger.attribution.sharing import Cells, Shares, cells_of, spread
from gpuledger.contract.columns import Longs, longs
from gpuledger.contract.fields import Field

LONG_SAMPLE_RATIO = 1.05  # of the window; a sample longer than this says little about the one window
OCCUPANCY_FIELDS = (Field.ENGINE_ACTIVE, Field.SM_ACTIVE, Field.GPU_UTILIZATION)
SHARED = (
    "estimated",
    "outstanding",
    "alone",
    "end_unseen",
    "brief",
    "uneven",
    "cap",
    "tight",
    "learned",
    "unlearned",
)
"""What a ProcessView sums up of Shares, in the order of its columns."""


@dataclass(slots=True)
class Measured:
    """What the per-process samples of one pair in one cell sum to: busy and covered ns, busy squared over
    covered (for their scatter), and how many there are."""

    busy: float = 0.0
    cover: float = 0.0
    squares: float = 0.0
    count: int = 0


def device_lengths(windows: Sequence[Prepared], devices: int) -> Longs:
    """Length of the window by device of the pass, ns."""
    table = np.zeros(devices, np.int64)
    for prepared in windows:
        first = prepared.first_device
        table[first : first + prepared.width] = prepared.window.window_length_ns
    return table


def sampled_holes(windows: Sequence[Prepared], samples: Samples, lengths: Longs) -> list[Hole]:
    """Stretches that no sample covers, of the field that would state each device's occupied share: SM
    active where SM-time is shared and it is declared, else engine active, else GPU_UTIL."""
    by_sm = np.zeros(len(lengths), bool)
    for prepared in windows:
        for number, device in enumerate(prepared.devices):
            slot = device.pieces[0].slot
            by_sm[prepared.first_device + number] = slot.by_sm_time and slot.sm_active_declared
    engine = of_field(samples, Field.ENGINE_ACTIVE)
    utilization = of_field(samples, Field.GPU_UTILIZATION)
    sm_active = of_field(samples, Field.SM_ACTIVE)
    has_engine = np.zeros(len(lengths), bool)
    has_engine[engine.device] = True
    chosen = (
        sm_active.chosen(np.flatnonzero(by_sm[sm_active.device])),
        engine.chosen(np.flatnonzero(~by_sm[engine.device])),
        utilization.chosen(np.flatnonzero(~by_sm[utilization.device] & ~has_engine[utilization.device])),
    )
    return [hole for field in chosen for hole in holes(field, lengths)]


@dataclass(slots=True)
class CellMap:
    """Cells with the piece that each lies in, by device of the pass."""

    cells: Cells
    piece: Longs  # index into the device's pieces


def cells_of_pieces(windows: Sequence[Prepared], samples: Samples, devices: int) -> CellMap:
    """The observed pieces as cells. On a device with several pieces, the borders of samples that lie across
    a border of pieces cut as well, so that such a sample's time can be laid where it was used."""
    columns: tuple[list[int], ...] = ([], [], [], [])
    crossing = _crossing_borders(windows, samples)
    for prepared in windows:
        origin = prepared.window.window_start_ns
        for number, device in enumerate(prepared.devices):
            place = prepared.first_device + number
            borders = crossing.get(place, ())
            for index, piece in enumerate(device.pieces):
                if not is_open(piece):
                    continue
                start, end = piece.start_ns - origin, piece.end_ns - origin
                cuts = sorted({start, end, *(at for at in borders if start < at < end)})
                for low, high in pairwise(cuts):
                    for column, value in zip(columns, (place, low, high, index), strict=True):
                        column.append(value)
    place_of, start_of, end_of, piece_of = (longs(column) for column in columns)
    return CellMap(cells_of(place_of, start_of, end_of, devices), piece_of)


def _crossing_borders(windows: Sequence[Prepared], samples: Samples) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    several = [
        (prepared, number, device)
        for prepared in windows
        for number, device in enumerate(prepared.devices)
        if len(device.pieces) > 1
    ]
    for prepared, number, device in several:
        place = prepared.first_device + number
        low, high = np.searchsorted(samples.device, [place, place + 1])
        start = samples.start[low:high]
        end = start + samples.duration[low:high]
        fields = samples.field[low:high]
        useful = np.isin(fields, [*OCCUPANCY_FIELDS, Field.PROCESS_SM_UTILIZATION])
        borders = [piece.start_ns - prepared.window.window_start_ns for piece in device.pieces[1:]]
        across = np.zeros(len(start), bool)
        for border in borders:
            across |= (start < border) & (border < end)
        chosen = across & useful
        found[place] = {*start[chosen].tolist(), *end[chosen].tolist()}
    return found


class Views:
    """Look-up of what is known of a piece: the silicon's values and the processes' parts. Nothing is known of
    devices that are ``done``."""

    def __init__(
        self,
        columns: Pass,
        samples: Samples,
        mapped: CellMap,
        shares: Shares,
        lengths: Longs,
        done: npt.NDArray[np.bool_],
    ) -> None:
        samples = samples.chosen(np.flatnonzero(~done[samples.device]))
        rows = np.flatnonzero(~done[mapped.cells.device[shares.cell]])
        shares = Shares(*(column[rows] for column in shares))
        self._columns = columns
        self._samples = samples
        self._cells = mapped.cells
        self._first = mapped.cells.first.tolist()
        self._piece = mapped.piece.tolist()
        self._cells_of: dict[tuple[int, int], list[int]] = {}
        cells = np.flatnonzero(~done[mapped.cells.device])
        places = mapped.cells.device[cells].tolist()
        for cell, place in zip(cells.tolist(), places, strict=True):
            self._cells_of.setdefault((place, self._piece[cell]), []).append(cell)
        self._shares: dict[int, list[tuple[int, ...]]] = {}
        for values in zip(*(column.tolist() for column in shares), strict=True):
            self._shares.setdefault(values[0], []).append(values)
        self._explained = np.bincount(shares.cell, shares.estimated, len(self._piece))
        self._outstanding = {
            (cell, pair): outstanding
            for cell, pair, outstanding in zip(
                shares.cell.tolist(), shares.pair.tolist(), shares.outstanding.tolist(), strict=True
            )
        }
        long = samples.duration > lengths[samples.device] * LONG_SAMPLE_RATIO
        self._long = set(zip(samples.device[long].tolist(), samples.field[long].tolist(), strict=True))
        self._means = {field: self._laid_out(field) for field in OCCUPANCY_FIELDS}
        self._measured = self._measured_parts()

    def cells(self, place: int, piece: int) -> list[int]:
        """The cells of a piece of a device of the pass."""
        return self._cells_of.get((place, piece), [])

    def device(self, place: int, piece: int) -> DeviceView:
        """The silicon's values in a piece."""
        cells = self.cells(place, piece)
        engine = self._ratio(Field.ENGINE_ACTIVE, cells)
        long = (place, int(Field.ENGINE_ACTIVE)) in self._long
        return DeviceView(
            engine_active=None if long else engine,
            engine_long=engine if long else None,
            gpu_utilization=self._ratio(Field.GPU_UTILIZATION, cells),
            sm_active=self._ratio(Field.SM_ACTIVE, cells),
            sm_long=(place, int(Field.SM_ACTIVE)) in self._long,
        )

    def processes(self, prepared: Prepared, number: int, piece: int) -> list[ProcessView]:
        """What each process did in a piece, in the order of their consumers, containers and numbers."""
        place = prepared.first_device + number
        found: dict[int, ProcessView] = {}

        def view(pair: int) -> ProcessView:
            if pair not in found:
                process = (pair - prepared.first_pair) // prepared.width
                found[pair] = ProcessView(
                    prepared.people.consumer(process),
                    prepared.container(process),
                    prepared.people.processes[process].witnessed,
                )
            return found[pair]

        for process in sorted(prepared.resident.get(number, ())):
            view(prepared.pair(process, number))
        for cell in self.cells(place, piece):
            for share in self._shares.get(cell, ()):
                one = view(share[1])
                for name, value in zip(SHARED, share[2:], strict=True):
                    setattr(one, name, getattr(one, name) + value)
            for pair, measured in self._measured.get(cell, ()):
                one = view(pair)
                one.measured += measured.busy
                one.measured_cover += measured.cover
                one.measured_squares += measured.squares
                one.measured_count += measured.count
        order = sorted(found, key=lambda pair: (found[pair].consumer, found[pair].container, pair))
        return [found[pair] for pair in order]

    def _ratio(self, field: Field, cells: list[int]) -> float | None:
        integral, covered = self._means[field]
        time = sum(covered[cell] for cell in cells)
        return sum(integral[cell] for cell in cells) / time if time > 0 else None

    def _laid_out(self, field: Field) -> tuple[list[float], list[float]]:
        """Busy and covered ns by cell. The busy time of a sample that lies across pieces first covers what
        consumers explain there, the rest evenly over the room left (CHARGING.md, Pieces)."""
        samples = of_field(self._samples, field)
        means = cell_means(samples, self._cells)
        busy = means.integral.tolist()
        rows, cell, start, end = spread(
            samples.device, samples.start, samples.start + samples.duration, self._cells
        )
        for row, places in self._across(rows, cell):
            value = float(samples.value[row])
            overlap = [int(end[at] - start[at]) for at in places]
            touched = [int(cell[at]) for at in places]
            for one, length in zip(touched, overlap, strict=True):
                busy[one] -= value * length
            explained = [
                min(float(self._explained[one]), float(length))
                for one, length in zip(touched, overlap, strict=True)
            ]
            whole, known = value * sum(overlap), sum(explained)
            room = sum(overlap) - known
            for one, length, part in zip(touched, overlap, explained, strict=True):
                if value > 1.0:
                    busy[one] += value * length  # more than there is room for: every piece is clamped
                elif whole <= known:
                    busy[one] += part * whole / known if known else 0.0
                else:
                    busy[one] += part + (whole - known) * (length - part) / room
        return busy, means.covered.tolist()

    def _measured_parts(self) -> dict[int, list[tuple[int, Measured]]]:
        """By cell: what the per-process samples of each pair sum to. The time of a sample that lies
        across pieces goes where the process had work outstanding, else evenly."""
        samples = of_field(self._samples, Field.PROCESS_SM_UTILIZATION)
        samples = samples.chosen(np.flatnonzero((samples.pair >= 0) & (samples.duration > 0)))
        rows, cell, start, end = spread(
            samples.device, samples.start, samples.start + samples.duration, self._cells
        )
        length = end - start
        busy = (samples.value[rows] * length).tolist()
        pairs = samples.pair[rows].tolist()
        for row, places in self._across(rows, cell):
            weights = [self._outstanding.get((int(cell[at]), pairs[at]), 0) for at in places]
            if sum(weights):
                whole = float(samples.value[row]) * int(length[places].sum())
                for at, weight in zip(places, weights, strict=True):
                    busy[at] = whole * weight / sum(weights)
        found: dict[int, dict[int, Measured]] = {}
        for one, pair, part, cover in zip(cell.tolist(), pairs, busy, length.tolist(), strict=True):
            sums = found.setdefault(one, {}).setdefault(pair, Measured())
            sums.busy += part
            sums.cover += cover
            sums.squares += part * part / cover if cover else 0.0
            sums.count += 1
        return {one: list(by.items()) for one, by in found.items()}

    def _across(self, rows: Longs, cell: Longs) -> list[tuple[int, list[int]]]:
        """(sample, its overlaps) of the samples that touch more than one piece."""
        if len(rows) < 2:
            return []
        opens = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        closes = np.r_[opens[1:], len(rows)]
        several = np.flatnonzero(closes - opens > 1)
        found = []
        for at in several.tolist():
            places = list(range(int(opens[at]), int(closes[at])))
            if len({self._piece[int(cell[place])] for place in places}) > 1:
                found.append((int(rows[opens[at]]), places))
        return found
