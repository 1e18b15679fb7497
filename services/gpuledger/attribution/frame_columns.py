"""The columns of a frame: its devices, their holders, its pairs of process and device, by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.pieces import Piece, is_open
from gpuledger.contract.columns import Doubles, Longs, longs

MAX_DENOMINATOR = 1 << 20  # of a device's entitlements: times a minute in ns it is far below 63 bits
UNEXPLAINED = "unexplained"
ABREAST_SHARINGS = ("exclusive", "time_slicing", "mps")


class Seat(NamedTuple):
    """What a row of a device may be for: a consumer, or the pool for a reason. Its order is that of rows."""

    consumer: ConsumerKey
    reason: str


class DeviceFacts(NamedTuple):
    """Columns by device of a frame. ``abreast``: whether it may be charged abreast with others;
    ``sole``: the seat of the one who holds all of it, -1 where there is none; ``free`` and ``unexplained``:
    the pool's seats."""

    abreast: npt.NDArray[np.bool_]
    by_sm: npt.NDArray[np.bool_]
    declared: npt.NDArray[np.bool_]
    sliced: npt.NDArray[np.bool_]
    denominator: Longs
    free_weight: Longs
    holders: Longs
    sole: Longs
    free: Longs
    unexplained: Longs
    scale: Doubles


class HolderFacts(NamedTuple):
    """Columns by holder of the devices that may be charged abreast, in order of device and seat; ``part`` is
    what it is entitled to, 0..1."""

    device: Longs
    seat: Longs
    weight: Longs
    part: Doubles


class PairFacts(NamedTuple):
    """Columns by pair of process and device. ``place``: the device's number times the seats, and the seat
    of the process's consumer; -1 for the device that is not known. ``fits``: what it did goes to that seat's
    one container on the device."""

    place: Longs
    fits: npt.NDArray[np.bool_]
    witnessed: npt.NDArray[np.bool_]


def device_facts(
    first: Prepared,
    pieces: Sequence[Piece],
    number_of: dict[Seat, int],
    container: dict[tuple[int, int], str],
) -> tuple[DeviceFacts, HolderFacts]:
    """The columns of the devices and of those who hold them; ``container`` is told where each holder is."""
    holders: list[tuple[int, int, int, float]] = []
    rows: list[tuple[int, ...]] = []
    uuids = [device.key.uuid for device in first.devices]
    for number, piece in enumerate(pieces):
        slot, holding = piece.slot, piece.holding
        abreast = (
            is_open(piece)
            and not piece.unwitnessed
            and slot.sharing in ABREAST_SHARINGS
            and holding.known
            and not holding.overbooked
            and holding.denominator <= MAX_DENOMINATOR
            and all(item.weight and len(item.containers) == 1 for item in holding.entitlements)
            and uuids.count(uuids[number]) == 1
        )
        sole = -1
        for item in holding.entitlements if abreast else ():
            name, slots = item.containers[0]
            part = item.weight / holding.denominator * slots / slots
            seat = number_of[Seat(item.consumer, "none")]
            holders.append((number, seat, item.weight, part))
            container[number, seat] = name
            if item.weight == holding.denominator:
                sole = seat
        rows.append(
            (
                abreast,
                slot.by_sm_time,
                slot.sm_active_declared,
                slot.sharing == "time_slicing",
                holding.denominator if abreast else 1,
                holding.free_weight if abreast else 0,
                len(holding.entitlements),
                sole if holding.denominator == 1 else -1,
                number_of.get(Seat(THE_POOL, holding.free_reason), 0),
                number_of[Seat(THE_POOL, UNEXPLAINED)],
            )
        )
    table = np.array(rows, np.int64).reshape(-1, 10).T
    can_be, by_sm, declared, sliced, denominator, free_weight, held, only, free, unexplained = table
    device, seats, weight = np.array([row[:3] for row in holders], np.int64).reshape(-1, 3).T
    facts = DeviceFacts(
        can_be != 0,
        by_sm != 0,
        declared != 0,
        sliced != 0,
        denominator,
        free_weight,
        held,
        only,
        free,
        unexplained,
        np.array([piece.slot.engine_scale for piece in pieces], np.float64),
    )
    return facts, HolderFacts(device, seats, weight, np.array([row[3] for row in holders], np.float64))


def pair_facts(
    first: Prepared, seat_of_process: list[int], seats: int, container: dict[tuple[int, int], str]
) -> PairFacts:
    """Containers of those who hold nothing are those of the first of their processes."""
    place, fits = [], []
    for process, seat in enumerate(seat_of_process):
        name = first.container(process)
        for device in range(len(first.devices)):
            place.append(device * seats + seat)
            fits.append(container.setdefault((device, seat), name) == name)
        place.append(-1)
        fits.append(False)
    witnessed = np.array([process.witnessed for process in first.people.processes], bool)
    return PairFacts(longs(place), np.array(fits, bool), np.repeat(witnessed, first.width))
