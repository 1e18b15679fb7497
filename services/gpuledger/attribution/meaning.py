"""What a telemetry record must be, beyond its schema, before it may be charged.

A schema bounds single values; it can not say that a GPU is on a node once, or that an event of a window lies
near it. What is refused here is impossible, not merely odd: odd records are charged and add up. Each limit
also bounds what a record can make the core spend, since memory and time follow from these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.columns import Longs
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import EventBatch, Header, Holder, Holdings, NodeLayout, SampleBatch
from gpuledger.contract.rows import NO_DEVICE, NODE_DEVICE
from gpuledger.contract.windows import DAY_NS, MINUTE_NS

REASON = "bad_meaning"
OVER_LIMIT = "over_limit"

MAX_GPUS = 1024  # of a node; the largest of today have 16
MAX_UNITS = 1024  # that a GPU may be cut into; MIG knows 7, weighted units of 1/56 below a hundred
MAX_DEVICES = 1024  # of a layout: GPUs and their instances
MAX_TEXT_CHARACTERS = 1024  # of what a device or a node is called; none of them is longer than 253
MAX_HOLDERS = 8192  # of a state: 110 pods a node by default, each with some containers and devices
MAX_SHARE_DENOMINATOR = 10**12  # a stated share; numbers beyond say nothing that these can not
MAX_DENOMINATORS = 32  # different ones on a device: they are multiplied with each other
MAX_REACH_NS = DAY_NS  # of an instant from its window; scrapes and states speak of the last minutes
MAX_DURATION_NS = 1 << 62  # 146 years; a sum with an instant still is a long

MAX_STATES = 512  # of a window: a change of holders every 20 ms
MAX_DEVICE_STATES = 1 << 16  # of a window, each device of each state: each may be a piece to be charged
MAX_EVENTS = 1 << 22  # of a window: 400,000 calls a second over 10 s, before any coarsening
MAX_SAMPLES = 1 << 20  # of a window
MAX_PAIRS = 1 << 18  # process and device of a window: 1,000 processes on 250 devices


def check_record(record: EventBatch | SampleBatch | Holdings) -> None:
    """Raise BadRecord where a record that keeps its schema says what can not be."""
    header = record.header
    if isinstance(record, EventBatch):
        _near(record.time_ns, header, "time_ns")
        _long(record.duration_ns, "duration_ns")
        _near(record.outstanding_start_ns, header, "outstanding_start_ns")
        _long(record.outstanding_duration_ns, "outstanding_duration_ns")
    elif isinstance(record, SampleBatch):
        _near(record.start_ns, header, "start_ns")
        _long(record.duration_ns, "duration_ns")
    else:
        if abs(record.time_ns - header.window_start_ns) > MAX_REACH_NS:
            raise BadRecord(REASON, f"{record.time_ns} is more than a day from its window", "time_ns")
        check_layout(record.layout)
        _check_holders(record.holders)


def check_layout(layout: NodeLayout) -> None:
    """Raise BadRecord where no node can be like that."""
    if layout.gpu_count > MAX_GPUS:
        raise BadRecord(REASON, f"{layout.gpu_count} GPUs, the limit is {MAX_GPUS}", "layout.gpu_count")
    if len(layout.devices) > MAX_DEVICES:
        message = f"{len(layout.devices)} devices, the limit is {MAX_DEVICES}"
        raise BadRecord(REASON, message, "layout.devices")
    texts = [layout.instance_id, layout.instance_type, layout.capacity_type]
    texts += [layout.region, layout.zone, layout.node_pool]
    for device in layout.devices:
        texts += [device.uuid, device.parent_uuid, device.model, device.mig_profile, device.sharing]
    if max(map(len, texts)) > MAX_TEXT_CHARACTERS:
        raise BadRecord(REASON, f"a text has more than {MAX_TEXT_CHARACTERS} characters", "layout")
    parents = {device.uuid: device.parent_uuid for device in layout.devices}
    if len(parents) != len(layout.devices):
        raise BadRecord(REASON, "two devices have one uuid", "layout.devices")
    units: dict[str, int] = {}
    for device in layout.devices:
        for uuid in (device.uuid, device.parent_uuid or device.uuid):
            if uuid in ("", NODE_DEVICE, NO_DEVICE):
                raise BadRecord(REASON, f"{uuid!r} is no uuid of a device", "layout.devices")
        if not (0 <= device.slices <= MAX_UNITS and 0 <= device.slices_total <= MAX_UNITS):
            message = f"{device.uuid} has {device.slices} of {device.slices_total} slices"
            raise BadRecord(REASON, message, "layout.devices")
        if device.parent_uuid:
            units[device.parent_uuid] = units.get(device.parent_uuid, 0) + device.slices
            if device.parent_uuid == device.uuid or parents.get(device.parent_uuid):
                raise BadRecord(REASON, f"{device.uuid} is part of a part", "layout.devices")
    gpus = {parent or uuid for uuid, parent in parents.items()}
    if len(gpus) > MAX_GPUS or max(units.values(), default=0) > MAX_UNITS:
        message = f"more than {MAX_GPUS} GPUs or {MAX_UNITS} slices of one"
        raise BadRecord(REASON, message, "layout.devices")


def check_window(window: NodeWindow) -> None:
    """Raise BadRecord (over_limit) where a window is longer than the minute that columns are laid out for, or
    its records are more than one window may cost."""
    if window.window_length_ns > MINUTE_NS:
        message = f"a window of {window.window_length_ns} ns, the limit is a minute"
        raise BadRecord(OVER_LIMIT, message, "window_length_ns")
    found = (
        ("states", len(window.holdings), MAX_STATES),
        ("states of devices", sum(map(_devices, window.holdings)), MAX_DEVICE_STATES),
        ("events", sum(len(batch.time_ns) for batch in window.events), MAX_EVENTS),
        ("samples", sum(len(batch.value) for batch in window.samples), MAX_SAMPLES),
    )
    for what, count, limit in found:
        if count > limit:
            raise BadRecord(OVER_LIMIT, f"{count} {what} in one window, the limit is {limit}")


def _devices(state: Holdings) -> int:
    return max(len(state.layout.devices), state.layout.gpu_count)


def check_pairs(processes: int, devices: int) -> None:
    """Raise BadRecord (over_limit) where a window has too many pairs of a process and a device."""
    if processes * devices > MAX_PAIRS:
        message = f"{processes} processes on {devices} devices in one window, the limit is {MAX_PAIRS} pairs"
        raise BadRecord(OVER_LIMIT, message)


def _near(column: Longs, header: Header, name: str) -> None:
    if len(column):
        for value in (int(column.min()), int(column.max())):
            if abs(value - header.window_start_ns) > MAX_REACH_NS:
                raise BadRecord(REASON, f"{value} is more than a day from its window", name)


def _long(column: Longs, name: str) -> None:
    if len(column) and int(column.max()) > MAX_DURATION_NS:
        raise BadRecord(REASON, f"{int(column.max())} ns is longer than anything lasts", name)


def _check_holders(holders: Iterable[Holder]) -> None:
    holders = list(holders)
    if len(holders) > MAX_HOLDERS:
        raise BadRecord(REASON, f"{len(holders)} holders, the limit is {MAX_HOLDERS}", "holders")
    denominators: dict[int, set[int]] = {}
    for holder in holders:
        percentage = holder.mps_percentage
        if percentage is not None and not (isfinite(percentage) and 0 <= percentage <= 100):
            raise BadRecord(REASON, f"{percentage} is no percentage", "holders.mps_percentage")
        if max(holder.share_numerator, holder.share_denominator) > MAX_SHARE_DENOMINATOR:
            message = f"{holder.share_numerator}/{holder.share_denominator} is no share"
            raise BadRecord(REASON, message, "holders.share_denominator")
        known = denominators.setdefault(holder.device, set())
        known.add(holder.share_denominator)
        if len(known) > MAX_DENOMINATORS:
            message = f"shares of one device with more than {MAX_DENOMINATORS} denominators"
            raise BadRecord(REASON, message, "holders.share_denominator")
