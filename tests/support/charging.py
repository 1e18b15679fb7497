"""Node-windows built by hand, for the tests of charging."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuledger.attribution import ChargeRow, Charges, NodeWindow, charge_window
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import (
    Device,
    EventBatch,
    Header,
    Holder,
    Holdings,
    NodeLayout,
    Pod,
    PriceBookVersion,
    PriceEntry,
    Process,
    SampleBatch,
)
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Prices, Teams

S = 1_000_000_000
START = 1_700_000_000 * S  # a whole minute is not needed: 10 s windows are aligned to it
WINDOW = 10 * S
DOLLARS_12_29 = 12_290_000_000  # nano an hour: the charging page's example price
RATE_10S = 34_138_889  # 10 s of $12.29 an hour: 34138888.9 nano, to within the floors of cum


def header(sequence: int, part: int | None = None, last: bool = False, **more: Any) -> Header:
    values = {"boot_id": "boot", "epoch_ns": 5, "window_start_ns": START, "window_length_ns": WINDOW}
    return Header(
        "c", "n", sequence=sequence, part=sequence if part is None else part, last=last, **(values | more)
    )


def prices(*entries: PriceEntry, **more: Any) -> Prices:
    chosen = list(entries) or [PriceEntry("gpu", "gpu", DOLLARS_12_29, "USD")]
    return Prices([PriceBookVersion(1, 0, entries=chosen, **more)])


def gpu(index: int = 0, **more: Any) -> Device:
    return Device(f"GPU-{index}", index=index, model="H100", **more)


def pod_process(pid: int, uid: str, **more: Any) -> Process:
    return Process(pid, 1, consumer_kind="pod", consumer=uid, **more)


def host_process(pid: int, **more: Any) -> Process:
    return Process(pid, 1, consumer_kind="host_process", consumer=f"{pid}:1", **more)


def state(
    layout: NodeLayout,
    holders: Iterable[Holder] = (),
    processes: Sequence[Process] = (),
    at_s: float = 0.0,
    sequence: int = 0,
    resident: Iterable[tuple[int, int, int]] = (),
    outstanding: Iterable[tuple[int, int]] = (),
    unwitnessed: Sequence[int] | None = None,
    pods: Iterable[Pod] = (),
    start: int = START,
    **more: Any,
) -> Holdings:
    """A state of the node ``at_s`` seconds into the window; a keyframe at 0. Every device is witnessed."""
    holders = list(holders)
    named = list(pods) or [
        Pod(uid, "ns", f"pod-{uid}")
        for uid in sorted({h.consumer for h in holders if h.consumer_kind == "pod"})
    ]
    resident, outstanding = list(resident), list(outstanding)
    return Holdings(
        more.pop("header", None) or header(sequence, window_start_ns=start),
        start + round(at_s * S),
        layout,
        keyframe=more.pop("keyframe", at_s == 0),
        pods=named,
        holders=holders,
        processes=list(processes),
        resident_process=longs([process for process, _, _ in resident]),
        resident_device=longs([device for _, device, _ in resident]),
        resident_bytes=longs([size for _, _, size in resident]),
        outstanding_process=longs([process for process, _ in outstanding]),
        outstanding_device=longs([device for _, device in outstanding]),
        outstanding_since_ns=longs([start - S for _ in outstanding]),
        outstanding_launches=longs([1 for _ in outstanding]),
        unwitnessed=longs([0] * len(layout.devices) if unwitnessed is None else unwitnessed),
        **more,
    )


@dataclass(slots=True)
class Calls:
    """Calls of some processes on some devices; times in seconds into the window."""

    processes: Sequence[Process]
    devices: Sequence[str] = ("GPU-0",)
    functions: Sequence[int] = ()
    rows: list[dict[str, int]] = field(default_factory=list)

    def call(self, operation: Operation, end_s: float, seconds: float = 0.0, **more: int) -> Calls:
        row = {
            "process": 0,
            "device": 0,
            "bytes": 0,
            "launched_threads": 0,
            "result": 0,
            "count": 1,
            "span_ns": 0,
            "function": -1,
        }
        row |= {"operation": int(operation), "time_ns": round(end_s * S), "duration_ns": round(seconds * S)}
        self.rows.append(row | more)
        return self

    def busy(self, start_s: float, end_s: float, process: int = 0, device: int = 0) -> Calls:
        """A launch at ``start_s`` and a synchronising call that waits until ``end_s``."""
        self.call(Operation.LAUNCH_KERNEL, start_s, process=process, device=device, launched_threads=256)
        wait = end_s - start_s
        return self.call(Operation.SYNCHRONIZE_STREAM, end_s, wait, process=process, device=device)

    def batch(self, sequence: int = 1, last: bool = True, start: int = START, **more: Any) -> EventBatch:
        rows = sorted(self.rows, key=lambda row: row["time_ns"])

        def column(name: str) -> np.ndarray:
            return longs([row[name] for row in rows])

        none = longs([-1] * len(rows))
        return EventBatch(
            more.pop("header", None) or header(sequence, last=last, window_start_ns=start),
            processes=list(self.processes),
            devices=list(self.devices),
            time_ns=column("time_ns") + start,
            thread=none,
            functions=longs(list(self.functions)),
            **{
                name: column(name)
                for name in (
                    "process",
                    "device",
                    "operation",
                    "duration_ns",
                    "bytes",
                    "launched_threads",
                    "result",
                    "count",
                    "span_ns",
                    "function",
                )
            },
            **more,
        )


def samples(
    rows: Iterable[tuple[Field, float, float, float]],
    sequence: int = 2,
    processes: Sequence[Process] = (),
    of_process: int = -1,
    device: str = "GPU-0",
    source: SampleSource = SampleSource.NVML,
    start: int = START,
    **more: Any,
) -> SampleBatch:
    """Samples (field, from s, seconds, value) of one device, or of one process on it."""
    rows = sorted(rows, key=lambda row: row[1])
    return SampleBatch(
        more.pop("header", None) or header(sequence, window_start_ns=start),
        devices=[device],
        processes=list(processes),
        device=longs([0] * len(rows)),
        process=longs([of_process] * len(rows)),
        field=longs([int(row[0]) for row in rows]),
        source=longs([int(source)] * len(rows)),
        start_ns=longs([start + round(row[1] * S) for row in rows]),
        duration_ns=longs([round(row[2] * S) for row in rows]),
        value=doubles([row[3] for row in rows]),
    )


def window(
    holdings: Iterable[Holdings] = (),
    events: Iterable[EventBatch] = (),
    sampled: Iterable[SampleBatch] = (),
    start: int = START,
    **more: Any,
) -> NodeWindow:
    return NodeWindow(
        "c",
        "n",
        start,
        more.pop("length", WINDOW),
        Revision(0, 3, 7, CORE_VERSION),
        holdings=list(holdings),
        events=list(events),
        samples=list(sampled),
        **more,
    )


def charge(*args: Any, **more: Any) -> Charges:
    """The window of these records, as `window` takes them, charged at `prices` without a team map."""
    charges = charge_window(window(*args, **more), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def row_of(charges: Charges, consumer: str = "", reason: str = "none", device: str = "GPU-0") -> ChargeRow:
    """The one row of a consumer on a device; the pool's with an empty consumer."""
    found = [
        row
        for row in charges.rows()
        if (row["device"], row["consumer"], row["reason"]) == (device, consumer, reason)
    ]
    assert len(found) == 1, f"{len(found)} rows of {consumer or 'the pool'} with reason {reason} on {device}"
    return found[0]


def keys(charges: Charges) -> set[tuple[str, str, str]]:
    return {(row["device"], row["consumer"], row["reason"]) for row in charges.rows()}
