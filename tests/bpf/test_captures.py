"""What is recorded into a graph did not run: it is seen, and it is no work."""

from __future__ import annotations

from collections import Counter

from gpuledger.agent.events import work_of
from gpuledger.agent.kernel_events import agent_events
from gpuledger.agent.outstanding import Outstanding
from gpuledger.agent.probes import ProbeSource, RawEvents
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import events_of
from tests.emulator.control import LIBCUDA, Emulator
from tests.emulator.programs import CUDA_PRELUDE, run_python

LAUNCHES, FORKED, REPLAYS, LAUNCH_NS = 7, 3, 5, 1_000_000

CAPTURES = f"""
    LAUNCHES, FORKED, REPLAYS, LAUNCH_US = {LAUNCHES}, {FORKED}, {REPLAYS}, {LAUNCH_NS // 1000}
    context()
    block = allocate(1 << 20)[1]
    streams, events = [c_void_p(), c_void_p()], [c_void_p(), c_void_p()]
    for stream, event in zip(streams, events):
        ok(cuda.cuStreamCreate(byref(stream), 1))
        ok(cuda.cuEventCreate(byref(event), 0))
    (origin, forked), (begun, joined) = streams, events
    ok(cuda.cuStreamBeginCapture_v2(origin, 0))
    ok(cuda.cuEventRecord(begun, origin))
    ok(cuda.cuStreamWaitEvent(forked, begun, 0))
    for number in range(LAUNCHES):
        launch(LAUNCH_US, (forked if number < FORKED else origin).value)
    ok(cuda.cuMemcpyDtoDAsync_v2(block, block, c_size_t(1 << 20), origin))
    ok(cuda.cuEventRecord(joined, forked))
    ok(cuda.cuStreamWaitEvent(origin, joined, 0))
    graph, instance = c_void_p(), c_void_p()
    ok(cuda.cuStreamEndCapture(origin, byref(graph)))
    ok(cuda.cuGraphInstantiateWithFlags(byref(instance), graph, c_uint64(0)))
"""
REPLAYED = """
    for _ in range(REPLAYS):
        ok(cuda.cuGraphLaunch(instance, origin))
    ok(cuda.cuStreamSynchronize(origin))
"""
ANSWER = "    answer = os.getpid()\n"

SHOWN = {
    "CAPTURE",
    "LAUNCH_KERNEL",
    "LAUNCH_GRAPH",
    "COPY_DEVICE_TO_DEVICE_ASYNC",
    "RECORD_EVENT",
    "WAIT_EVENT",
    "SYNCHRONIZE_STREAM",
}
CAPTURED = LAUNCHES + 1 + 2 + 2  # a copy, and twice an event that is recorded and waited for


def operations(events: RawEvents) -> Counter[str]:
    return Counter({name: count for name, count in _calls(events).items() if name in SHOWN})


def _calls(events: RawEvents) -> Counter[str]:
    found: Counter[str] = Counter()
    for code, count in zip(events["operation"].tolist(), events["count"].tolist(), strict=True):
        found[Operation(code).name] += count
    return found


def left_outstanding(events: RawEvents) -> list[object]:
    seen = agent_events(events, 0)
    state = Outstanding()
    state.apply(seen, work_of(seen))
    return list(state.items())


def test_launches_into_a_graph_are_no_work_until_it_is_launched(source: ProbeSource) -> None:
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        pid = run_python(emulator, CUDA_PRELUDE, CAPTURES + ANSWER)
        assert [stay.busy_ns for stay in emulator.truth().stays(emulator.uuids[0])] == [0]
        events = events_of(source, pid)
    assert operations(events) == {"CAPTURE": CAPTURED}
    captured = events[events["operation"] == Operation.CAPTURE]
    assert set(captured["bytes"].tolist()) == set(captured["launched_threads"].tolist()) == {0}
    assert set(captured["ordinal"].tolist()) == {0}
    assert left_outstanding(events) == []


def test_what_a_graph_holds_runs_at_each_of_its_launches(source: ProbeSource) -> None:
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        pid = run_python(emulator, CUDA_PRELUDE, CAPTURES + REPLAYED + ANSWER)
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert stay.busy_ns == REPLAYS * LAUNCHES * LAUNCH_NS
        events = events_of(source, pid)
    assert operations(events) == {"CAPTURE": CAPTURED, "LAUNCH_GRAPH": REPLAYS, "SYNCHRONIZE_STREAM": 1}
    assert left_outstanding(events) == []
    assert len(left_outstanding(events[events["operation"] != Operation.SYNCHRONIZE_STREAM])) == 1


def test_captures_of_a_tallied_process_are_added_up_and_no_work_either(source: ProbeSource) -> None:
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        source.set_tally_rate(0)
        pid = run_python(emulator, CUDA_PRELUDE, CAPTURES + ANSWER)
        source.set_tally_rate(None)
        events = events_of(source, pid)
    assert operations(events) == {"CAPTURE": CAPTURED}
    assert (events["count"] > 0).all()  # no run of outstanding work
    assert (events["span_ns"][events["operation"] == Operation.CAPTURE] > 0).all()
