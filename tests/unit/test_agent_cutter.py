"""The cutter: windows with parts, told the time."""

import pytest

from gpuledger.agent.holders.source import Holders
from gpuledger.agent.rules import EVENT_GRACE_NS, SAMPLE_WAIT_NS
from gpuledger.agent.samplers import Gap, Round, Sample
from gpuledger.agent.state import ResidentTotals, View
from gpuledger.agent.windows import Part
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, Holdings, Pod, SampleBatch
from tests.support.agent import MS, NODE, POD, Bench, S, event, event_times, joined, uuid

W = 10 * S
SYNC = Operation.SYNCHRONIZE_CONTEXT


def sample(start_ns: int, duration_ns: int, value: float = 0.5, pid: int | None = None) -> Sample:
    field = Field.GPU_UTILIZATION if pid is None else Field.PROCESS_SM_UTILIZATION
    return Sample(uuid(0), pid, field, SampleSource.NVML, start_ns, duration_ns, value)


def shape(parts: list[Part]) -> list[tuple[int, str, int, bool]]:
    """(window's number, kind, part, last) of each part."""
    return [(p.header.window_start_ns // W, type(p).__name__, p.header.part, p.header.last) for p in parts]


def test_a_window_goes_out_even_when_nothing_happened() -> None:
    bench = Bench()
    parts = bench.advance(2 * W + EVENT_GRACE_NS)
    assert shape(parts) == [
        (0, "Holdings", 0, False),
        (0, "SampleBatch", 1, True),
        (1, "Holdings", 0, False),
        (1, "SampleBatch", 1, True),
        (2, "Holdings", 0, False),
    ]
    assert [p.header.sequence for p in parts] == [0, 1, 2, 3, 4]


def test_an_epoch_that_starts_inside_a_window_begins_with_part_one() -> None:
    bench = Bench(started_ns=3 * S)
    parts = bench.advance(W + EVENT_GRACE_NS)
    assert shape(parts)[:2] == [(0, "Holdings", 1, False), (0, "SampleBatch", 2, True)]
    first = parts[0]
    assert isinstance(first, Holdings)
    assert (first.keyframe, first.time_ns) == (False, 3 * S)
    assert isinstance(parts[2], Holdings)
    assert (parts[2].keyframe, parts[2].time_ns, parts[2].header.part) == (True, W, 0)


def test_events_lie_in_the_window_of_their_return() -> None:
    bench = Bench()
    bench.cutter.add_events(joined([event(W), event(0), event(W - 1)]))
    parts = bench.advance(2 * W + EVENT_GRACE_NS)
    by_window = {p.header.window_start_ns // W: event_times([p]) for p in parts if isinstance(p, EventBatch)}
    assert by_window == {0: [0, W - 1], 1: [W]}


def test_a_window_waits_a_moment_for_events_that_the_kernel_hands_over_late() -> None:
    bench = Bench()
    assert shape(bench.advance(W + EVENT_GRACE_NS - 1)) == [(0, "Holdings", 0, False)]
    bench.cutter.add_events(event(W - 1))
    assert event_times(bench.advance(W + EVENT_GRACE_NS)) == [W - 1]


def test_an_event_that_comes_after_its_window_is_restated_at_the_next_one_s_start() -> None:
    bench = Bench()
    bench.advance(W + EVENT_GRACE_NS)
    bench.cutter.add_events(event(W - 3 * MS))
    batches = [p for p in bench.advance(2 * W + EVENT_GRACE_NS) if isinstance(p, EventBatch)]
    assert (batches[0].time_ns.tolist(), batches[0].header.window_start_ns) == ([W], W)
    span = int(batches[0].span_ns[0])
    assert W - span < W - 3 * MS <= W, "it returned in (time - span, time]"
    assert bench.cutter.late_events == 1


def test_large_windows_go_out_in_parts_as_they_fill() -> None:
    bench = Bench(max_events=3)
    bench.cutter.add_events(joined([event(i * MS) for i in range(7)]))
    early = bench.advance(S)
    assert shape(early) == [
        (0, "Holdings", 0, False),
        (0, "EventBatch", 1, False),
        (0, "EventBatch", 2, False),
    ]
    rest = bench.advance(W + EVENT_GRACE_NS)
    assert shape(rest)[:2] == [(0, "EventBatch", 3, False), (0, "SampleBatch", 4, True)]
    assert event_times(early + rest) == [i * MS for i in range(7)]


def test_the_keyframe_says_what_was_outstanding_at_the_border() -> None:
    bench = Bench()
    bench.cutter.add_events(joined([event(W - 5 * MS), event(W - 4 * MS), event(W + 1 * MS, SYNC)]))
    keyframes = [p for p in bench.advance(2 * W + EVENT_GRACE_NS) if isinstance(p, Holdings)]
    assert keyframes[1].outstanding_since_ns.tolist() == [W - 5 * MS]
    assert keyframes[1].outstanding_launches.tolist() == [2]
    assert keyframes[1].processes[int(keyframes[1].outstanding_process[0])].pid == 1
    assert keyframes[2].outstanding_since_ns.tolist() == []


def test_the_keyframe_says_what_was_resident_at_the_border() -> None:
    bench = Bench()
    grow = event(W - 1, Operation.ALLOCATE_DEVICE, bytes=100, device=1)
    bench.cutter.add_events(joined([grow, event(W, Operation.FREE_DEVICE, bytes=40, device=1)]))
    keyframes = [p for p in bench.advance(2 * W + EVENT_GRACE_NS) if isinstance(p, Holdings)]
    found = [(k.resident_device.tolist(), k.resident_bytes.tolist()) for k in keyframes]
    assert found == [([], []), ([1], [100]), ([1], [60])]


def test_a_process_that_ended_is_told_in_its_window_and_holds_nothing_after() -> None:
    bench = Bench()
    bench.cutter.add_events(event(4 * S))
    bench.reader.gone = [1]
    bench.state.note_ends(6 * S)
    parts = bench.advance(W + EVENT_GRACE_NS)
    last = next(p for p in parts if p.header.last)
    assert isinstance(last, SampleBatch)
    assert [(p.pid, p.ended_ns) for p in last.processes] == [(1, 6 * S)]
    keyframe = parts[-1]
    assert isinstance(keyframe, Holdings)
    assert (keyframe.processes, keyframe.outstanding_process.tolist()) == ([], [])


def test_a_process_that_ended_just_after_the_border_is_on_the_keyframe() -> None:
    bench = Bench()
    bench.cutter.add_events(event(4 * S))
    bench.reader.gone = [1]
    bench.state.note_ends(W + 50 * MS)
    keyframe = bench.advance(W + EVENT_GRACE_NS)[-1]
    assert isinstance(keyframe, Holdings)
    assert [p.ended_ns for p in keyframe.processes] == [W + 50 * MS]
    assert keyframe.outstanding_launches.tolist() == [1]


def test_a_change_of_holders_inside_a_window_is_a_record_with_its_time() -> None:
    bench = Bench()
    bench.cutter.add_events(joined([event(2 * S), event(4 * S)]))
    bench.cutter.change(3 * S, View(Holders(pods=(Pod(POD),))))
    parts = bench.advance(W + EVENT_GRACE_NS)
    assert [kind for _, kind, _, _ in shape(parts)] == [
        "Holdings",
        "EventBatch",
        "Holdings",
        "EventBatch",
        "SampleBatch",
        "Holdings",
    ]
    before, change, after = (p for p in parts if isinstance(p, Holdings))
    assert (before.holders_known, change.holders_known) == (False, True)
    assert (change.time_ns, change.keyframe) == (3 * S, False)
    assert after.keyframe
    assert after.holders_known


def test_a_change_right_at_the_border_is_on_the_keyframe_alone() -> None:
    bench = Bench()
    bench.cutter.change(W, View(Holders()))
    holdings = [p for p in bench.advance(W + S) if isinstance(p, Holdings)]
    assert [(h.time_ns, h.keyframe, h.holders_known) for h in holdings] == [
        (0, True, False),
        (W, True, True),
    ]


def test_a_correction_of_resident_memory_holds_from_its_instant() -> None:
    bench = Bench()
    allocate = Operation.ALLOCATE_DEVICE
    bench.cutter.add_events(joined([event(2 * S, allocate, bytes=5), event(4 * S, allocate, bytes=7)]))
    bench.cutter.change(3 * S, ResidentTotals({(0, 0): 100}))
    holdings = [p for p in bench.advance(W + EVENT_GRACE_NS) if isinstance(p, Holdings)]
    assert [(h.time_ns, h.resident_bytes.tolist()) for h in holdings] == [(0, []), (3 * S, [100]), (W, [107])]


def test_a_sample_is_repeated_in_every_window_that_it_overlaps() -> None:
    bench = Bench(samples_expected=True)
    long = sample(W - S, W + 2 * S)
    bench.cutter.add_round(Round(2 * W + S, [long, sample(W, 0), sample(2 * W - S, S)]))
    windows: dict[int, list[tuple[int, int]]] = {}
    for part in bench.advance(3 * W + SAMPLE_WAIT_NS):
        if isinstance(part, SampleBatch):
            pairs = zip(part.start_ns.tolist(), part.duration_ns.tolist(), strict=True)
            windows.setdefault(part.header.window_start_ns // W, []).extend(pairs)
    assert windows == {
        0: [(W - S, W + 2 * S)],
        1: [(W - S, W + 2 * S), (W, 0), (2 * W - S, S)],
        2: [(W - S, W + 2 * S)],
    }


def test_a_window_waits_for_the_sample_that_reaches_its_end() -> None:
    bench = Bench(samples_expected=True)
    assert len(bench.advance(W + SAMPLE_WAIT_NS - 1)) == 1
    bench.cutter.add_round(Round(W + 5 * MS, [sample(W - S, S + 5 * MS)]))
    batch = bench.advance(W + EVENT_GRACE_NS)[0]
    assert isinstance(batch, SampleBatch)
    assert batch.header.last
    assert batch.value.tolist() == [0.5]
    assert batch.gaps == []


def test_a_driver_that_does_not_answer_leaves_a_gap_and_no_zero() -> None:
    bench = Bench(samples_expected=True)
    bench.cutter.add_round(Round(4 * S, [sample(3 * S, S)]))
    batch = bench.advance(W + SAMPLE_WAIT_NS)[1]
    assert isinstance(batch, SampleBatch)
    assert batch.value.tolist() == [0.5]
    assert [(g.reason, g.start_ns, g.duration_ns, g.device) for g in batch.gaps] == [
        ("timeout", 4 * S, 6 * S, -1)
    ]


def test_gaps_of_the_sampler_name_their_device_and_field() -> None:
    bench = Bench(samples_expected=True)
    gap = Gap(uuid(1), Field.POWER_WATTS, SampleSource.NVML, S, S, "no_permission")
    bench.cutter.add_round(Round(W, gaps=[gap]))
    batch = bench.advance(W + EVENT_GRACE_NS)[1]
    assert isinstance(batch, SampleBatch)
    found = [(batch.devices[g.device], g.field, g.reason) for g in batch.gaps]
    assert found == [(uuid(1), Field.POWER_WATTS, "no_permission")]


def test_samples_of_a_process_name_it() -> None:
    bench = Bench(samples_expected=True)
    bench.cutter.add_round(Round(W, [sample(S, S, pid=1), sample(S, S, pid=404), sample(S, S)]))
    batch = bench.advance(W + EVENT_GRACE_NS)[1]
    assert isinstance(batch, SampleBatch)
    assert sorted(batch.process.tolist()) == [-1, 0], "one whose process is gone is nobody's"
    assert [p.pid for p in batch.processes] == [1]


def test_many_samples_go_out_in_several_parts_and_the_last_one_ends_the_window() -> None:
    bench = Bench(samples_expected=True, max_samples=2)
    bench.cutter.add_round(Round(W, [sample(i * S, S) for i in range(5)]))
    parts = [p for p in bench.advance(W + EVENT_GRACE_NS) if isinstance(p, SampleBatch)]
    assert [(len(p.value), p.header.last) for p in parts] == [(2, False), (2, False), (1, True)]


def test_goodbye_is_on_the_last_part_of_the_window_that_was_cut_short() -> None:
    bench = Bench()
    parts = bench.advance(W + S)
    bench.cutter.add_events(event(W + 2 * S))
    parts = list(bench.cutter.finish(W + 3 * S, goodbye=True))
    assert shape(parts) == [(1, "EventBatch", 1, False), (1, "SampleBatch", 2, True)]
    assert [p.header.goodbye for p in parts] == [False, True]


def test_a_stop_that_does_not_end_the_node_leaves_its_window_open() -> None:
    bench = Bench()
    bench.advance(W + S)
    bench.cutter.add_events(event(W + 2 * S))
    parts = list(bench.cutter.finish(W + 2 * S, goodbye=False))
    assert [(type(p).__name__, p.header.last, p.header.goodbye) for p in parts] == [
        ("EventBatch", False, False)
    ]


def test_a_stop_gives_out_every_window_that_had_ended() -> None:
    bench = Bench(samples_expected=True)
    bench.advance(S)
    parts = list(bench.cutter.finish(2 * W + S, goodbye=True))
    assert [p.header.window_start_ns // W for p in parts if p.header.last] == [0, 1, 2]


@pytest.mark.parametrize("pressure", [0, 1, 2])
def test_the_header_states_identity_losses_and_coarsening(pressure: int) -> None:
    bench = Bench()
    bench.cutter.pressure = pressure
    bench.cutter.lost = bench.cutter.lost._replace(kernel=5, unpaired_returns=7)
    bench.cutter.lose(3)
    header = bench.advance(S)[0].header
    assert (header.cluster, header.node) == NODE
    assert (header.boot_id, header.epoch_ns) == bench.time.epoch
    assert (header.lost_kernel, header.lost_user, header.unpaired_returns) == (5, 3, 7)
    assert (header.coarsening, header.window_length_ns) == (pressure, W)
