"""Whatever order things come in: nothing is lost, nothing in the wrong window, and the parts are in a row."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.agent.events import work_of
from gpuledger.agent.holders.source import Holders
from gpuledger.agent.outstanding import Outstanding
from gpuledger.agent.rules import EVENT_GRACE_NS, SAMPLE_WAIT_NS
from gpuledger.agent.samplers import Round, Sample
from gpuledger.agent.state import View
from gpuledger.agent.windows import Part
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode, encode
from tests.support.agent import Bench, S, event, joined, uuid

W = 2 * S
END = 5 * W
OPERATIONS = st.sampled_from(
    [Operation.LAUNCH_KERNEL, Operation.SYNCHRONIZE_STREAM, Operation.ALLOCATE_DEVICE, Operation.QUERY_EVENT]
)
EVENTS = st.lists(
    st.tuples(st.integers(0, END - 1), OPERATIONS, st.integers(0, 1), st.integers(-1, 1), st.integers(0, 1)),
    max_size=60,
)
SAMPLES = st.lists(st.tuples(st.integers(0, END), st.integers(0, 3 * W)), max_size=20)
CHANGES = st.lists(st.tuples(st.integers(0, END), st.booleans()), max_size=4)
STARTS = st.one_of(st.just(0), st.integers(0, W))
PRESSURES = st.lists(st.integers(0, 1), min_size=1, max_size=6)


@st.composite
def lives(draw: st.DrawFn) -> tuple[Bench, list[Part], list[tuple], list[tuple[int, Sample]]]:
    """An epoch in which events come at most the grace late, samples at most the wait late."""
    started = draw(STARTS)
    bench = Bench(
        started, W, samples_expected=draw(st.booleans()), processes=(1, 2), max_events=draw(st.integers(1, 9))
    )
    events = [row for row in draw(EVENTS) if row[0] >= started]
    samples = [
        Sample(uuid(0), None, Field.SM_ACTIVE, SampleSource.NVML, start, length, float(number))
        for number, (start, length) in enumerate(draw(SAMPLES))
    ]
    pressures = draw(PRESSURES)
    arrivals: list[tuple[int, str, object]] = []
    for row in events:
        arrivals.append((row[0] + draw(st.integers(0, EVENT_GRACE_NS - 1)), "event", row))
    for sample in samples:
        end = sample.start_ns + sample.duration_ns
        if end >= started:
            late = draw(st.integers(0, EVENT_GRACE_NS - 1))
            arrivals.append((max(end, started) + late, "sample", sample))
    for at, known in draw(CHANGES):
        arrivals.append((max(at, started), "change", View(Holders() if known else None)))
    # a window never closes before the sampler has reached its end; here it says so when all has come
    parts: list[Part] = []
    came: list[tuple[int, Sample]] = []
    for number, (now, kind, thing) in enumerate(sorted(arrivals, key=lambda a: a[:2])):
        bench.cutter.pressure = pressures[number % len(pressures)]
        if kind == "event":
            time, operation, process, device, result = thing  # type: ignore[misc]
            values = {"process": process, "device": device, "result": result, "bytes": 3}
            bench.cutter.add_events(event(time, operation, **values))
        elif kind == "sample":
            came.append((bench.cutter.window_start_ns, thing))  # type: ignore[arg-type]
            bench.cutter.add_round(Round(0, [thing]))  # type: ignore[list-item]
        else:
            bench.cutter.change(now, thing)  # type: ignore[arg-type]
        parts += bench.advance(now)
    parts += bench.advance(END + W + SAMPLE_WAIT_NS)
    parts += list(bench.cutter.finish(END + W + SAMPLE_WAIT_NS, goodbye=True))
    return bench, parts, events, came


@given(lives())
@settings(max_examples=80, deadline=None)
def test_every_window_is_a_row_of_parts_in_order(life: tuple[Bench, list[Part], list, list]) -> None:
    bench, parts, _, _ = life
    assert [p.header.sequence for p in parts] == list(range(len(parts)))
    starts = [p.header.window_start_ns for p in parts]
    assert starts == sorted(starts)
    first = bench.time.epoch.started_boot_ns
    assert sorted(set(starts)) == list(range(first - first % W, starts[-1] + 1, W))
    for start in set(starts):
        window = [p for p in parts if p.header.window_start_ns == start]
        whole = start >= first
        assert [p.header.part for p in window] == list(range(0 if whole else 1, len(window) + (not whole)))
        assert [p.header.last for p in window] == [False] * (len(window) - 1) + [True]
        keyframes = [p for p in window if isinstance(p, Holdings) and p.keyframe]
        assert [p.header.part for p in keyframes] == ([0] if whole else [])
        assert all(p.time_ns == start for p in keyframes)


@given(lives())
@settings(max_examples=80, deadline=None)
def test_the_events_of_all_records_are_the_events_that_came(
    life: tuple[Bench, list[Part], list, list],
) -> None:
    bench, parts, events, _ = life
    wanted: Counter[tuple[int, ...]] = Counter()
    found: Counter[tuple[int, ...]] = Counter()
    for time, operation, process, device, result in events:
        wanted[time // W, process, device, int(operation), result] += 1
    for batch in (p for p in parts if isinstance(p, EventBatch)):
        header = batch.header
        assert (batch.time_ns >= header.window_start_ns).all()
        assert (batch.time_ns < header.window_start_ns + W).all()
        assert (np.diff(batch.time_ns) >= 0).all()
        for i in range(len(batch.time_ns)):
            device = batch.devices[int(batch.device[i])] if batch.device[i] >= 0 else None
            key = (
                header.window_start_ns // W,
                batch.processes[int(batch.process[i])].pid - 1,
                -1 if device is None else bench.state.position(device),
                int(batch.operation[i]),
                int(batch.result[i]),
            )
            found[key] += int(batch.count[i])
    assert found == wanted
    assert bench.cutter.lost.user == 0


@given(lives())
@settings(max_examples=80, deadline=None)
def test_a_sample_is_once_in_every_window_that_it_overlaps_and_that_was_open_when_it_came(
    life: tuple[Bench, list[Part], list, list],
) -> None:
    _, parts, _, samples = life
    windows = {p.header.window_start_ns for p in parts}
    wanted = Counter(
        (start, sample.value)
        for open_ns, sample in samples
        for start in windows
        if start >= open_ns
        and sample.start_ns < start + W
        and (sample.start_ns + sample.duration_ns > start or sample.start_ns == start)
    )
    found = Counter(
        (p.header.window_start_ns, float(value))
        for p in parts
        if isinstance(p, SampleBatch)
        for value in p.value
    )
    assert found == wanted


@given(lives())
@settings(max_examples=40, deadline=None)
def test_every_part_survives_the_wire(life: tuple[Bench, list[Part], list, list]) -> None:
    _, parts, _, _ = life
    for part in parts:
        assert encode(decode(type(part), encode(part))) == encode(part)


@given(EVENTS, st.lists(st.integers(0, 60), max_size=5))
@settings(max_examples=80, deadline=None)
def test_outstanding_work_does_not_depend_on_how_events_are_cut_into_chunks(
    rows: list[tuple[int, Operation, int, int, int]], cuts: list[int]
) -> None:
    rows = sorted(rows)
    events = [event(t, o, process=p, device=d, result=r) for t, o, p, d, r in rows]
    whole, pieces = Outstanding(), Outstanding()
    if not events:
        return
    together = joined(events)
    whole.apply(together, work_of(together))
    bounds = sorted({0, len(events), *(c for c in cuts if c < len(events))})
    for start, end in itertools.pairwise(bounds):
        piece = joined(events[start:end])
        pieces.apply(piece, work_of(piece))
    assert whole.items() == pieces.items()
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for time, operation, process, device, result in rows:
        key = (process, device)
        if operation == Operation.LAUNCH_KERNEL and result == 0:
            since, count = expected.get(key, (time, 0))
            expected[key] = (since, count + 1)
        elif operation == Operation.SYNCHRONIZE_STREAM:
            expected.pop(key, None)
    assert dict(whole.items()) == expected
