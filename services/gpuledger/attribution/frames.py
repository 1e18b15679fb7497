"""What a node's records repeat from window to window, worked out once.

In nearly all windows nothing changes: one keyframe holds from the beginning to the end, and it says of
devices, holders, pods and processes what the one before it said. ``Frame`` is what follows from that alone:
who is there, what each device is and who is entitled to what, as objects and as columns for the arithmetic
of many devices abreast (``abreast``).

A frame is known again by the objects in the records, not by what they say: whoever decodes a series of
records gives the same object for what is repeated, and nobody may change it (``decode_series``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey, People
from gpuledger.attribution.devices import gpu_count, gpus_of, priced_node
from gpuledger.attribution.frame_columns import (
    UNEXPLAINED,
    DeviceFacts,
    HolderFacts,
    PairFacts,
    Seat,
    device_facts,
    pair_facts,
)
from gpuledger.attribution.gather import Prepared, prepare
from gpuledger.attribution.meaning import MAX_GPUS
from gpuledger.attribution.pieces import DevicePieces, Piece, is_open, pieces_of
from gpuledger.attribution.timeline import Records, Timeline
from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.columns import Longs, longs
from gpuledger.pricing import PriceBook, PricedDevice

MAX_FRAMES = 4096  # nodes; about 20 kB each


@dataclass(slots=True, eq=False)
class Frame:
    """See the module. ``key`` identifies it, ``kept`` keeps the objects that the key names alive."""

    key: tuple[Any, ...]
    window_length_ns: int
    kept: tuple[Any, ...]
    people: People
    pieces: list[DevicePieces]
    node: PricedDevice  # what of the node is not GPU
    least_gpus: int  # that it is paid for, whatever a price says
    alike: bool  # its GPUs are of one model
    device_numbers: dict[str, int]
    containers: dict[ConsumerKey, str]
    seats: list[Seat]
    seat_of: dict[Seat, int]
    devices: DeviceFacts
    holders: HolderFacts
    pairs: PairFacts
    pending: npt.NDArray[np.bool_]
    container: dict[tuple[int, int], str]  # by (device, seat)
    state_processes: Longs  # of the keyframe, by their number there: the first pair less the window's
    state_devices: Longs  # of the keyframe's layout, by their number there: the number in the window
    dictionaries: dict[tuple[int, int], Any] = field(default_factory=dict)
    texts: dict[Any, Any] = field(default_factory=dict)  # of rows; see abreast/written.py
    tables: dict[Any, Any] = field(default_factory=dict)  # of the texts of a window's rows

    def prepared(self, window: NodeWindow, records: Records, line: Timeline) -> Prepared:
        """Another window of the frame."""
        span = line.spans[0]
        devices = [
            DevicePieces(
                key,
                [Piece(span.start_ns, span.end_ns, one.slot, one.holding, one.gap, False, one.unwitnessed)],
            )
            for key, (one, *_) in self.pieces
        ]
        return Prepared(
            window,
            records,
            line,
            self.people,
            devices,
            device_numbers=self.device_numbers,
            containers=self.containers,
            frame=self,
        )


class Frames:
    """The latest frame of each node. Owned by one thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Frame] = {}

    def prepared(
        self, window: NodeWindow, records: Records, line: Timeline, book: PriceBook
    ) -> Prepared | None:
        """The window by its node's frame; None where something changes in it, or where its policy is one
        that is not computed abreast."""
        if not _is_steady(window, records, line):
            return None
        node = window.cluster, window.node
        found = self._known.get(node)
        key = _key(window, records, line, book, found)
        if found is not None and found.key == key:
            return found.prepared(window, records, line)
        pieces = pieces_of(line.spans, window.cluster, book, bool(records.events), window.policy.mig)
        if any(len(device.pieces) != 1 for device in pieces):
            return None
        prepared = prepare(window, records, line, pieces)
        if not _agree(prepared):
            return None
        if len(self._known) >= MAX_FRAMES:
            for name in list(self._known)[::2]:
                del self._known[name]
        self._known[node] = prepared.frame = _frame(key, prepared)
        return prepared


def _is_steady(window: NodeWindow, records: Records, line: Timeline) -> bool:
    """Whether one state holds through all of the node's life in the window, and the policy is the common
    one, but for MIG."""
    if len(line.spans) != 1 or line.spans[0].state is None or len(records.holdings) != 1:
        return False
    policy = window.policy
    return (policy.burst, policy.entitlement, policy.idle) == ("pay", "slots", "holders")


def _key(
    window: NodeWindow, records: Records, line: Timeline, book: PriceBook, last: Frame | None
) -> tuple[Any, ...]:
    """What a frame is known by; ``last`` is the one before."""
    state, (start, end, *_) = records.holdings[0], line.spans[0]
    if last is not None and last.kept[0] is state.layout:
        gpus = max(last.least_gpus, min(MAX_GPUS, book.gpus_per_node(last.node, start, end)))
    else:
        gpus = gpu_count(state.layout, window.cluster, book, start, end)
    return (
        window.cluster,
        window.window_length_ns,
        window.policy.mig,
        gpus,
        state.holders_known,
        state.keepers_count > 0,
        state.unwitnessed.tobytes(),
        *map(id, _named(records)),
    )


def _named(records: Records) -> list[Any]:
    """The objects that say what a frame follows from."""
    state = records.holdings[0]
    found: list[Any] = [state.layout, state.holders, state.pods, state.processes]
    for events in records.events:
        found += (events.processes, events.devices)
    for samples in records.samples:
        found += (samples.processes, samples.devices)
    return found


def _agree(prepared: Prepared) -> bool:
    """Whether all records say the same of each process: else it matters which is read last."""
    people, records = prepared.people, prepared.records
    named = [record.processes for record in records.holdings]
    named += [record.processes for record in records.events]
    named += [record.processes for record in records.samples]
    return all(
        people.processes[number] == process
        for processes in named
        for number, process in zip(people.numbers_of(processes), processes, strict=True)
    )


def _frame(key: tuple[Any, ...], first: Prepared) -> Frame:
    people, state = first.people, first.records.holdings[0]
    gpus = gpus_of(state.layout)
    consumers = [people.consumer(number) for number in range(len(people.processes))]
    pieces = [device.pieces[0] for device in first.devices]
    keys = {item.consumer for piece in pieces for item in piece.holding.entitlements}
    reasons = {piece.holding.free_reason for piece in pieces if is_open(piece)}
    seats = sorted(
        [Seat(consumer, "none") for consumer in {*keys, *consumers}]
        + [Seat(THE_POOL, reason) for reason in {*reasons, UNEXPLAINED}]
    )
    number_of = {seat: number for number, seat in enumerate(seats)}
    seat_of = {seat.consumer: number for number, seat in enumerate(seats) if seat.reason == "none"}
    container: dict[tuple[int, int], str] = {}
    devices, holders = device_facts(first, pieces, number_of, container)
    for device, piece in enumerate(pieces):
        for reason in (piece.holding.free_reason, UNEXPLAINED):
            if is_open(piece):
                container[device, number_of[Seat(THE_POOL, reason)]] = ""
    pairs = pair_facts(first, [seat_of[consumer] for consumer in consumers], len(seats), container)
    unnamed = {
        consumer
        for consumer, process in zip(consumers, people.processes, strict=True)
        if process.pending and process.consumer not in people.pods
    }
    return Frame(
        key=key,
        window_length_ns=first.window.window_length_ns,
        kept=tuple(_named(first.records)),
        people=people,
        pieces=list(first.devices),
        node=priced_node(state.layout, key[0], gpus[0].model if gpus else "").with_gpus(key[3]),
        least_gpus=max(state.layout.gpu_count, len(gpus)),
        alike=len({gpu.model for gpu in gpus}) <= 1,
        device_numbers=first.device_numbers,
        containers=first.containers,
        seats=seats,
        seat_of=number_of,
        devices=devices,
        holders=holders,
        pairs=pairs,
        pending=np.array([seat.consumer in unnamed for seat in seats], bool),
        container=container,
        state_processes=longs([number * first.width for number in people.numbers_of(state.processes)]),
        state_devices=longs(
            [first.device_numbers.get(device.uuid, first.unknown) for device in state.layout.devices]
        ),
    )
