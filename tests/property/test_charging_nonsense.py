"""Charging of records that keep every rule of their schemas and make no sense."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuledger.attribution import NodeWindow, charge_windows, check_layout, check_record
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.fields import Field
from gpuledger.contract.records import (
    Device,
    EventBatch,
    Holder,
    Holdings,
    NodeLayout,
    Pod,
    PriceEntry,
    Process,
    SampleBatch,
    decode,
    encode,
)
from gpuledger.pricing import Teams
from tests.support.charging import START, WINDOW, Calls, S, gpu, header, pod_process, prices, state
from tests.support.charging import samples as samples_of
from tests.support.charging import window as window_of

PRICES = prices(
    PriceEntry("a", "gpu", 12_290_000_001, "USD"),
    PriceEntry("node", "node", 98_320_000_003, "USD", instance_type="big", gpu_share_ppb=777_777_777),
)
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
EDGES = (0, 1, 7, 10**9, WINDOW, 1 << 31, 1 << 37, 10**15, 1 << 53, 10**18, 1 << 62, GREATEST)
amounts = st.sampled_from(EDGES[:-1]) | st.integers(0, WINDOW)
anything = st.sampled_from([*EDGES, *(-edge for edge in EDGES), LEAST]) | st.integers(-WINDOW, WINDOW)
ROUNDING_NS = 20  # a bound is rounded once in each of a row's pieces, the time once in all
DAY = 86_400 * S
instants = st.sampled_from([-DAY, -200 * S, 0, 1, WINDOW, 137 * S, 200 * S, DAY]) | st.integers(
    -WINDOW, 2 * WINDOW
)
instants = instants.map(lambda at: START + at)
ints = st.sampled_from([-(1 << 31), -2, -1, 0, 1, 2, 3, 7, 8, 1000, 1 << 20, (1 << 31) - 1])
counts = st.sampled_from([0, 0, 1, 2, 8, 1000, 1 << 20, (1 << 31) - 1])
floats = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1)
names = st.sampled_from(["", "GPU-0", "GPU-1", "node", "-", "x\x1fy", "pod"])
shares = st.sampled_from([0, 1, 3, 7, 10**6, 10**12 - 11, 10**12])
pods = st.builds(Pod, st.sampled_from(["", "uid-0", "uid-1"]), names, names, names)
kinds = st.sampled_from(["", "pod", "pool", "host_process", "nonsense"])


@st.composite
def devices(draw: st.DrawFn) -> Device:
    return Device(
        draw(names),
        index=draw(ints),
        parent_uuid=draw(st.sampled_from(["", "", "", "GPU-0", "GPU-1", "-", "node"])),
        gpu_instance=draw(ints),
        slices=draw(st.sampled_from([0, 0, 1, 3]) | ints),
        slices_total=draw(st.sampled_from([0, 7]) | ints),
        model=draw(names),
        mig_profile=draw(names),
        memory_total_bytes=draw(anything),
        sharing=draw(st.sampled_from(["exclusive", "time_slicing", "mps", "fractional", "mig", "", "odd"])),
        replicas=draw(counts),
        sm_active_declared=draw(st.booleans()),
        lost=draw(st.booleans()),
        placement_start=draw(ints),
        placement_size=draw(ints),
        slice_starts=draw(st.sampled_from([0, 0b111_1111]) | anything),
        slice_size=draw(ints),
    )


def layouts(draw: st.DrawFn) -> NodeLayout:
    """Devices are mostly told apart, since a layout that names one twice is refused."""
    found = draw(st.lists(devices(), max_size=4))
    if draw(st.integers(0, 9)):
        for at, device in enumerate(found):
            device.uuid = f"GPU-{at}"
            device.slices, device.slices_total = abs(device.slices) % 9, abs(device.slices_total) % 9
            device.parent_uuid = draw(st.sampled_from(["", "", "GPU-7", "GPU-8"]))
    return NodeLayout(
        instance_type=draw(st.sampled_from(["", "big"])),
        gpu_count=draw(st.sampled_from([0, 0, 0, 1, 8]) | st.integers(0, 2000)),
        devices=found,
    )


@st.composite
def processes(draw: st.DrawFn) -> Process:
    return Process(
        draw(st.sampled_from([0, 1, 2, -1, GREATEST])),
        draw(st.sampled_from([0, 1, LEAST])),
        draw(st.none() | instants),
        consumer_kind=draw(kinds),
        consumer=draw(st.sampled_from(["", "uid-0", "uid-1"])),
        container=draw(names),
        pending=draw(st.booleans()),
        witnessed=draw(st.booleans()),
    )


def headers(draw: st.DrawFn, sequence: int):
    return header(
        sequence,
        part=draw(st.sampled_from([0, 1, 2, 3, (1 << 31) - 1])),
        last=draw(st.booleans()),
        amendment=draw(st.integers(0, 9)) == 0,
        epoch_ns=draw(st.sampled_from([5, 5, 5, 6, LEAST, GREATEST])),
        clock_offset_ns=draw(st.sampled_from([0, 0, START, LEAST, GREATEST])),
        lost_kernel=draw(st.sampled_from([0, 0, 3, GREATEST])),
        lost_user=draw(st.sampled_from([0, 0, 3, GREATEST])),
    )


def column(draw: st.DrawFn, size: int, values: st.SearchStrategy[int]):
    return longs(draw(st.lists(values, min_size=size, max_size=size)))


@st.composite
def states(draw: st.DrawFn, sequence: int) -> Holdings:
    layout = layouts(draw)
    people = draw(st.lists(processes(), max_size=4))
    width, crowd = len(layout.devices), len(people)
    holders = []
    if width:
        for _ in range(draw(st.integers(0, 4))):
            holders.append(
                Holder(
                    draw(st.sampled_from(["", "uid-0", "uid-1", "uid-2"])),
                    draw(st.integers(0, width - 1)),
                    consumer_kind=draw(kinds),
                    container=draw(names),
                    slots=draw(counts),
                    share_numerator=draw(shares),
                    share_denominator=draw(shares),
                    mps_percentage=draw(st.none() | st.floats(0, 100)),
                )
            )
    n = draw(st.integers(0, 3)) if width and crowd else 0
    m = draw(st.integers(0, 3)) if width and crowd else 0
    return Holdings(
        headers(draw, sequence),
        draw(instants),
        layout,
        keyframe=draw(st.booleans()),
        holders_known=draw(st.integers(0, 9)) > 0,
        pods=draw(
            st.lists(st.builds(Pod, st.sampled_from(["", "uid-0", "uid-1"]), names, names, names), max_size=3)
        ),
        holders=holders,
        processes=people,
        resident_process=column(draw, n, st.integers(0, max(crowd - 1, 0))),
        resident_device=column(draw, n, st.integers(0, max(width - 1, 0))),
        resident_bytes=column(draw, n, amounts),
        outstanding_process=column(draw, m, st.integers(0, max(crowd - 1, 0))),
        outstanding_device=column(draw, m, st.integers(0, max(width - 1, 0))),
        outstanding_since_ns=column(draw, m, instants),
        outstanding_launches=column(draw, m, amounts),
        unwitnessed=column(draw, draw(st.sampled_from([0, width, width + 1])), amounts),
    )


@st.composite
def batches(draw: st.DrawFn, sequence: int) -> EventBatch:
    people = draw(st.lists(processes(), min_size=1, max_size=4))
    places = draw(st.lists(names, max_size=3))
    n, m = draw(st.integers(0, 8)), draw(st.integers(0, 4))
    who, where = st.integers(0, len(people) - 1), st.integers(-1, len(places) - 1)
    return EventBatch(
        headers(draw, sequence),
        processes=people,
        devices=places,
        time_ns=column(draw, n, instants),
        process=column(draw, n, who),
        thread=longs([-1] * n),
        device=column(draw, n, where),
        operation=column(draw, n, st.integers(0, 40) | st.just(65535)),
        duration_ns=column(draw, n, amounts),
        bytes=column(draw, n, amounts),
        launched_threads=column(draw, n, amounts),
        function=longs([-1] * n),
        result=column(draw, n, st.sampled_from([0, 0, 1, -(1 << 31)])),
        count=column(draw, n, st.sampled_from([1, 1, 5, GREATEST])),
        span_ns=column(draw, n, amounts),
        outstanding_process=column(draw, m, who),
        outstanding_device=column(draw, m, where),
        outstanding_start_ns=column(draw, m, instants),
        outstanding_duration_ns=column(draw, m, amounts),
        outstanding_blocked_ns=column(draw, m, amounts),
    )


@st.composite
def measurements(draw: st.DrawFn, sequence: int) -> SampleBatch:
    people = draw(st.lists(processes(), max_size=3))
    places = draw(st.lists(names, min_size=1, max_size=3))
    n = draw(st.integers(0, 8))
    return SampleBatch(
        headers(draw, sequence),
        devices=places,
        processes=people,
        device=column(draw, n, st.integers(0, len(places) - 1)),
        process=column(draw, n, st.integers(-1, len(people) - 1)),
        field=column(draw, n, st.sampled_from([*map(int, Field), 0, 65535])),
        source=column(draw, n, st.sampled_from([0, 1, 2, 3, 4, 255, 256, 65535])),
        start_ns=column(draw, n, instants),
        duration_ns=column(draw, n, amounts),
        value=doubles(draw(st.lists(floats, min_size=n, max_size=n))),
    )


@st.composite
def windows(draw: st.DrawFn) -> NodeWindow:
    holdings = [draw(states(i)) for i in range(draw(st.integers(0, 2)))]
    return window_of(
        holdings,
        [draw(batches(10 + i)) for i in range(draw(st.integers(0, 2)))],
        [draw(measurements(20 + i)) for i in range(draw(st.integers(0, 2)))],
        state=draw(st.sampled_from(["complete", "complete", "incomplete", "unobserved", "refused", "ended"])),
        layout=layouts(draw) if draw(st.booleans()) else None,
        refused=int(draw(st.integers(0, 9)) == 0),
        life_start_ns=draw(st.sampled_from([None, START + 123_456_789])),
        life_end_ns=draw(st.sampled_from([None, START + 7 * S + 1])),
    )


def on_the_wire(window: NodeWindow) -> NodeWindow:
    """The window as a processor gets it; what breaks a rule of the schemas never comes that far."""
    try:
        for records in (window.holdings, window.events, window.samples):
            for at, record in enumerate(records):
                records[at] = decode(type(record), encode(record))  # type: ignore[index]
                check_record(records[at])
        if window.layout is not None:
            check_layout(window.layout)
    except BadRecord:
        assume(False)
    return window


def neighbour() -> NodeWindow:
    """A window of a decent node."""
    layout = NodeLayout(devices=[gpu(0), gpu(1)])
    people = [pod_process(1, "uid-0")]
    calls = Calls(people, ("GPU-0", "GPU-1")).busy(1, 4).busy(5, 6, device=1)
    return window_of(
        [state(layout, [Holder("uid-0", 0)], people)],
        [calls.batch()],
        [samples_of([(Field.ENGINE_ACTIVE, 0, 10, 0.4), (Field.SM_ACTIVE, 0, 10, 0.3)])],
    )


@settings(max_examples=150, deadline=None)
@given(windows())
def test_nonsense_adds_up_fits_the_wire_and_touches_no_other_node(window):
    window = on_the_wire(window)
    alone = encode(charge_windows([neighbour()], PRICES, Teams())[0].to_record())
    before, charges, behind = charge_windows([neighbour(), window, neighbour()], PRICES, Teams())
    assert charges.conservation_error_nano == 0
    assert charges.conservation_error_ns == 0
    encode(charges.to_record())
    assert encode(before.to_record()) == alone
    assert encode(behind.to_record()) == alone
    for row in charges.rows():
        assert 0 <= row["unpriced_ns"] <= row.total_ns
        assert 0 <= row["effectively_used_ns"] <= row["used_ns"]
        assert row["confidence_low_ns"] <= row["used_ns"] + ROUNDING_NS
        assert row["used_ns"] <= row["confidence_high_ns"] + ROUNDING_NS
        assert math.isnan(row["completeness"]) or 0 <= row["completeness"] <= 1
        assert not np.isinf(row["memory_byte_seconds"])
