"""What of a bill people read as words: devices, consumers, evidence, flags, amounts of memory, instants."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuledger.charge.bill import Bill, Line
from gpuledger.charge.labels import SHORT_UUID
from gpuledger.contract.rows import NO_DEVICE, NODE_DEVICE, Flag
from gpuledger.contract.windows import HOUR_NS, NS_PER_S

GIB = 1 << 30
FLAGS_SAID = {
    Flag.OCCUPIED_CLAMPED: "the busy part was measured outside of 0 to 100 % and cut to it",
    Flag.GPU_UTILIZATION_USED: "busy is GPU_UTIL, which says only that something ran",
    Flag.SAMPLE_SPREAD: "a measurement that is longer than its window is spread evenly",
    Flag.SIGNALS_DISAGREE: "the counters contradict each other",
    Flag.SCALED_DOWN: "the parts that were measured sum to more than the device's: they are scaled down",
    Flag.INTRUDER: "somebody who booked nothing used it",
    Flag.OFF_THE_BOOKS: "holds nothing here",
    Flag.OVERBOOKED: "more is held than there is",
    Flag.PENDING: "its pod is not named yet",
    Flag.DEVICE_UNKNOWN: "calls of which the device is not known are not in its usage",
    Flag.UNWITNESSED: "most of its work was not seen to end",
    Flag.EVENTS_LOST: "the agent lost events of this time",
    Flag.UNBOOKED_MEMORY: "memory resident without a holding",
    Flag.SILICON_SHARED: "SM active is of the whole device, on which others were too: it is nobody's own",
    Flag.PRICE_PROVISIONAL: "some of it is at the last known price of a series, and will be restated",
}


def device_of(line: Line) -> str:
    """The line's device, short."""
    uuid = line.key["device"]
    if uuid == NODE_DEVICE:
        return "(rest of the node)"
    if uuid == NO_DEVICE:
        return "(missing GPU)"
    profile = f" {line.said['mig_profile']}" if line.said["mig_profile"] else ""
    if uuid.startswith("MIG-GPU-"):
        instance = uuid.partition("/")[2].partition("/")[0]
        return f"{uuid[4:16]}/{instance}{profile}"
    return f"{uuid[:SHORT_UUID]}{profile}"


def who_of(line: Line) -> str:
    """The consumer with its container."""
    container = line.key["container"]
    return f"{line.who} [{container}]" if container else line.who


def evidence_of(line: Line, only_holder: bool) -> str:
    """How the used part is known. Equal slots of the only holder are all of the device."""
    if line.evidence == "equal_slots" and only_holder:
        return "alone there"
    return line.evidence.replace("_", " ")


def remarks_of(line: Line) -> list[str]:
    """What is to be said of a line, in words."""
    said = [] if line.key["reason"] in ("none", "free") else [line.key["reason"].replace("_", " ")]
    flags = Flag(line.flags)
    if line.mean("sm_active") is None:
        flags &= ~Flag.SILICON_SHARED  # there is no value that could pass for its own
    return said + [text for flag, text in FLAGS_SAID.items() if flags & flag]


def said_missing(bill: Bill) -> list[str]:
    """The nodes that are charged for GPUs which no file shows, in words."""
    nodes = dict.fromkeys(line.node for line in bill.lines if line.key["device"] == NO_DEVICE)
    return [
        f"{node}: its price is for more GPUs than the files show: the others are charged as missing"
        for node in nodes
    ]


def percent(ratio: float | None) -> str:
    """``61.0``; empty where it is not known."""
    return "" if ratio is None else f"{100 * ratio:.1f}"


def gib(size: float) -> str:
    """``20.29 GiB``; below a hundredth in MiB."""
    if 0 < size < GIB / 100:
        return f"{size / (1 << 20):.2f} MiB"
    return f"{size / GIB:.2f} GiB"


def hours(ns: int) -> str:
    """``1.0000``."""
    return f"{ns / HOUR_NS:.4f}"


def instant_of(ns: int) -> str:
    """``2026-03-02T09:00:00Z``."""
    return datetime.fromtimestamp(ns / NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
