"""What has to hold of what was seen; each check says what it found, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

import numpy as np

from gpuledger.agent.probes.driver_api import SYMBOLS
from gpuledger.agent.probes.ioctls import ioctl_name
from gpuledger.agent.probes.symbol import SILENT
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from tests.gpu.amounts import COPIES_IN, COPIES_OUT, COPY_BYTES, HELD_BYTES, THREADS
from tests.gpu.observed import Observed

IOCTLS = [int(operation) for operation in Operation if operation.name.startswith("IOCTL_")]
BUSY_RATIO = 0.5  # of a device that runs one kernel after another; drivers round and average
MAX_COST_NS = 100_000  # some 1 us is expected on bare metal, some 12 us in a virtual machine


class State(StrEnum):
    """Of a check."""

    OK = "ok"
    FAILED = "failed"
    NOT_HERE = "not here"
    """This machine, or the emulated GPU, does not have what would be checked."""


@dataclass
class Check:
    """One statement and what was found."""

    name: str
    state: State
    detail: str
    figures: dict[str, Any] = field(default_factory=dict)


def counts(seen: Observed) -> Check:
    """Every call is seen once, with its result."""
    operation = {symbol.name: symbol.operation.name for symbol in SYMBOLS if symbol.effect not in SILENT}
    expected: Counter[tuple[str, bool]] = Counter()
    for result, failed in (("ok", False), ("failed", True)):
        for name, number in seen.counted[result].items():
            if name in operation:
                expected[operation[name], failed] += number
    found: Counter[tuple[str, bool]] = Counter()
    assert seen.events is not None
    calls = seen.events[~np.isin(seen.events["operation"], IOCTLS)]
    for code, result, number in zip(calls["operation"], calls["result"], calls["count"], strict=True):
        found[Operation(int(code)).name, bool(result)] += max(1, int(number))
    wrong = {
        f"{name} {'failed' if failed else 'ok'}": (expected[name, failed], found[name, failed])
        for name, failed in expected.keys() | found.keys()
        if expected[name, failed] != found[name, failed]
    }
    figures = {"calls": sum(expected.values()), "lost": seen.lost, "called_and_seen_differ": wrong}
    good = not wrong and seen.lost == 0 and sum(expected.values()) > 0
    return Check("each call is counted once", _state(good), f"{sum(found.values())} calls seen", figures)


def sizes(seen: Observed) -> Check:
    """Copies have their bytes."""
    assert seen.events is not None
    operations = seen.events["operation"]
    found = {
        name: int(seen.events["bytes"][operations == operation].sum())
        for name, operation in (
            ("in", Operation.COPY_HOST_TO_DEVICE),
            ("out", Operation.COPY_DEVICE_TO_HOST),
        )
    }
    expected = {"in": THREADS * COPIES_IN * COPY_BYTES, "out": THREADS * COPIES_OUT * COPY_BYTES}
    return Check("copies have their bytes", _state(found == expected), f"{found} of {expected}", found)


def right_sum(seen: Observed) -> Check:
    """The GPU did what it was told: the program is a real one."""
    return Check("the vectors were added", _state(seen.counted["added_right"]), "compared on the host")


def identity(seen: Observed) -> Check:
    """The ordinal's UUID, as the program was told, is the one that NVML lists, and the probes saw it told."""
    uuid = _dashed(seen.counted["uuid"])
    listed = [device.uuid for device in seen.devices if device.uuid.partition("-")[2] == uuid]
    probed = {told.uuid for told in seen.told if told.ordinal == 0}
    assert seen.events is not None
    ordinals = Counter(seen.events["ordinal"][seen.events["operation"] == Operation.LAUNCH_KERNEL].tolist())
    good = len(listed) == 1 and probed == {uuid} and set(ordinals) == {0}
    detail = f"NVML lists {listed}, the probes saw {sorted(probed)}, launches by ordinal {dict(ordinals)}"
    return Check("a context's device is known by UUID", _state(good), detail)


def utilisation(seen: Observed) -> Check:
    """NVML sees the device busy while it was."""
    values = _values(seen, Field.GPU_UTILIZATION)
    good = bool(values) and median(values) >= BUSY_RATIO
    return Check("NVML: the device is busy", _state(good), _range(values), {"values": values})


def process_memory(seen: Observed) -> Check:
    """NVML lists the process with at least the memory that it holds."""
    sizes = [
        size for taken in seen.rounds for held in taken.contexts.values() if (size := held.get(seen.pid))
    ]
    if not sizes:
        absent = not any(seen.pid in held for taken in seen.rounds for held in taken.contexts.values())
        detail = "the process is not listed" if absent else "listed, without memory"
        return Check("NVML: memory of the process", State.FAILED, detail)
    good = max(sizes) >= HELD_BYTES
    return Check("NVML: memory of the process", _state(good), f"{max(sizes)} bytes", {"bytes": max(sizes)})


def process_utilisation(seen: Observed) -> Check:
    """NVML samples the process. How well is a figure, not a condition: drivers leave busy ones out."""
    values = [
        sample.value
        for taken in seen.rounds
        for sample in taken.samples
        if sample.pid == seen.pid and sample.field is Field.PROCESS_SM_UTILIZATION
    ]
    covered = sum(
        sample.duration_ns
        for taken in seen.rounds
        for sample in taken.samples
        if sample.pid == seen.pid and sample.field is Field.PROCESS_SM_UTILIZATION
    )
    figures = {"values": values, "covered_ratio": covered / 1e9 / seen.loaded["seconds"]}
    detail = f"{_range(values)}, speaking for {figures['covered_ratio']:.0%} of the time"
    return Check("NVML: utilisation of the process", _state(bool(values)), detail, figures)


def gpm(seen: Observed) -> Check:
    """Where there is GPM, engine and SM active are near 1 under a kernel that fills the device."""
    engine, sm = (_values(seen, field, SampleSource.GPM) for field in (Field.ENGINE_ACTIVE, Field.SM_ACTIVE))
    if not engine and not sm:
        return Check("GPM", State.NOT_HERE, "this device has none (Hopper and newer have)")
    good = all(0 <= value <= 1 for value in [*engine, *sm]) and min(median(engine), median(sm)) >= BUSY_RATIO
    detail = f"engine {_range(engine)}, SM {_range(sm)}"
    return Check("GPM", _state(good), detail, {"engine_active": engine, "sm_active": sm})


def ioctls(seen: Observed) -> Check:
    """The driver's entry points were probed, and each ioctl has a name."""
    name, report = "ioctls of the driver", seen.driver
    if report is None or not report.attached:
        return Check(name, State.NOT_HERE, report.error if report else "no kernel driver is loaded")
    assert seen.events is not None
    rows = seen.events[np.isin(seen.events["operation"], IOCTLS)]
    names = Counter(
        ioctl_name(int(row["operation"]), int(row["function"])) or Operation(int(row["operation"])).name
        for row in rows
    )
    unnamed = sorted(text for text in names if text.startswith("0x"))
    uuid = _dashed(seen.counted["uuid"])
    registered = any(one.uuid == uuid for one in seen.registrations)
    detail = f"{sum(names.values())} seen, {len(unnamed)} without a name, device registered: {registered}"
    figures = {"names": dict(names), "missing": list(report.missing)}
    return Check(name, _state(bool(names) and registered), detail, figures)


def addresses(seen: Observed) -> Check:
    """cuGetProcAddress hands out the exported functions, so that their probes see its callers."""
    answer = seen.addresses
    detail = f"{answer['same']} the same, others: {answer['other'] or 'none'}, unknown: {len(answer['none'])}"
    good = answer["same"] > 0 and not answer["other"]
    return Check("cuGetProcAddress gives probed functions", _state(good), detail, answer)


def symbols(seen: Observed) -> Check:
    """What the driver's library exports of the table."""
    report = seen.library
    if report is None or report.error:
        return Check(
            "the library's functions are probed", State.FAILED, report.error if report else "not found"
        )
    detail = f"{len(report.attached)} probed, not exported: {', '.join(report.missing) or 'none'}"
    figures = {"path": report.path, "missing": list(report.missing), "aliased": list(report.aliased)}
    return Check("the library's functions are probed", _state(bool(report.attached)), detail, figures)


def cost(seen: Observed) -> Check:
    """What a probed call costs beyond an unprobed one."""
    extra = seen.probed_ns - seen.plain_ns
    figures = {"probed_ns": seen.probed_ns, "plain_ns": seen.plain_ns, "extra_ns": extra}
    detail = f"{seen.probed_ns:.0f} ns with probes, {seen.plain_ns:.0f} ns without"
    return Check("cost of a probed call", _state(extra < MAX_COST_NS), detail, figures)


ALL: tuple[Callable[[Observed], Check], ...] = (
    symbols,
    counts,
    sizes,
    identity,
    utilisation,
    process_memory,
    process_utilisation,
    gpm,
    ioctls,
    addresses,
    cost,
)
ON_SILICON_ONLY: tuple[Callable[[Observed], Check], ...] = (right_sum,)


def _state(good: bool) -> State:
    return State.OK if good else State.FAILED


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _values(seen: Observed, wanted: Field, source: SampleSource | None = None) -> list[float]:
    """Of the device that was loaded, without the first round, which speaks of the time before."""
    uuid = _dashed(seen.counted["uuid"])
    return [
        sample.value
        for taken in seen.rounds[1:]
        for sample in taken.samples
        if sample.pid is None
        and sample.field is wanted
        and sample.device.partition("-")[2] == uuid
        and source in (None, sample.source)
    ]


def _range(values: list[float]) -> str:
    if not values:
        return "no values"
    return f"{min(values):.2f} .. {median(values):.2f} .. {max(values):.2f} ({len(values)} values)"
