"""The agent's loop over a simulated node, with a clock that is moved by hand and no Kafka."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuledger.agent.lifetime import launched_ns
from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.events import Losses, RawEvents
from gpuledger.agent.settings import read_layout
from gpuledger.agent.simulated import SimulatedNode
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import EventBatch, Holdings, NodeLifetime, decode
from tests.support.agent import NODE, S
from tests.support.agent_bench import TENTH, Bench, Newcomer


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_every_call_of_the_node_is_in_the_records(bench: Bench) -> None:
    bench.run(31)
    records = bench.records()
    events = [body for _, body in records if isinstance(body, EventBatch)]
    whole = SimulatedNode().events(500 * S, 530 * S)
    assert sum(len(batch.time_ns) for batch in events) == len(whole) + 10
    assert [headers.window_start_ns for headers, _ in records if headers.last] == [
        1_000_000 * S,
        1_000_010 * S,
        1_000_020 * S,
    ]


def test_kafka_headers_say_what_the_record_says(bench: Bench) -> None:
    bench.run(11)
    for headers, body in bench.records():
        header = body.header
        assert headers.id == (NODE.cluster, NODE.node, "boot", header.epoch_ns, header.sequence)
        assert (headers.part, headers.last, headers.goodbye) == (header.part, header.last, header.goodbye)
        assert headers.keyframe == (isinstance(body, Holdings) and body.keyframe)


def test_the_keyframe_knows_holders_processes_memory_and_outstanding_work(bench: Bench) -> None:
    bench.run(11)
    keyframe = [body for headers, body in bench.records() if headers.keyframe][-1]
    assert isinstance(keyframe, Holdings)
    assert keyframe.holders_known
    assert sorted(p.name for p in keyframe.processes) == ["bursty", "heavy", "miner", "trainer", "warm"]
    names = {i: p.name for i, p in enumerate(keyframe.processes)}
    resident = {
        names[int(p)]: int(b) >> 30
        for p, b in zip(keyframe.resident_process, keyframe.resident_bytes, strict=True)
    }
    assert resident == {"trainer": 60, "heavy": 20, "bursty": 10, "warm": 30, "miner": 4}
    assert [d.sharing for d in keyframe.layout.devices] == ["exclusive", "time_slicing", "exclusive"]
    assert keyframe.layout.instance_type == "p5.48xlarge"
    assert keyframe.unwitnessed.tolist() == [0, 0, 0]


@pytest.mark.parametrize("step_s", [4, -3600])
def test_a_stepped_wall_clock_begins_a_new_epoch_and_loses_nothing(bench: Bench, step_s: int) -> None:
    bench.run(15)
    bench.clock.step(step_s * S)
    bench.run(16)
    records = bench.records()
    epochs = {headers.id.epoch_ns for headers, _ in records}
    assert sorted(epochs) == [500 * S, 515 * S]
    first = [h for h, _ in records if h.id.epoch_ns == 500 * S]
    second = [h for h, _ in records if h.id.epoch_ns == 515 * S]
    assert not first[-1].last, "the window that the clock left is never said to be whole"
    assert [h.id.sequence for h in second] == list(range(len(second)))
    assert second[0].part == 1
    assert second[0].window_start_ns == (1_000_015 + step_s) // 10 * 10 * S
    events = [body for _, body in records if isinstance(body, EventBatch)]
    times = sum(len(batch.time_ns) for batch in events)
    last = max(h.window_start_ns for h in second if h.last) + 10 * S
    until = last - (1_000_000 + step_s) * S + 500 * S
    assert times == len(SimulatedNode().events(500 * S, until)) + 10
    outstanding = next(b for h, b in records if h.keyframe and h.id.epoch_ns == 515 * S)
    assert isinstance(outstanding, Holdings)
    assert all(
        outstanding.time_ns - S < since <= outstanding.time_ns for since in outstanding.outstanding_since_ns
    )


def test_the_first_process_of_a_library_is_witnessed_as_soon_as_that_is_probed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Newcomer)
    bench.run(5)
    bench.agent.tick()  # it has just looked around
    bench.clock.advance(TENTH)
    found = bench.agent._state.processes.of_pid(Newcomer.PID)
    assert found is not None
    seen = [bench.agent._state.describe(found).witnessed]
    bench.source.probed = LibraryReport("/libcuda.so.1", *Newcomer.FILE, ("cuInit",), ())
    bench.source.probes_changed = True
    bench.agent.tick()
    seen.append(bench.agent._state.describe(found).witnessed)
    assert seen == [False, True]


def test_a_small_error_of_the_clock_changes_nothing(bench: Bench) -> None:
    bench.run(5)
    bench.clock.step(-S)
    bench.run(10)
    assert len({headers.id.epoch_ns for headers, _ in bench.records()}) == 1


def test_a_spool_that_fills_makes_windows_coarse_and_never_loses_their_frame(tmp_path: Path) -> None:
    bench = Bench(tmp_path, spool_bytes=400_000)
    bench.run(200, tick_ns=S)
    records = bench.records()
    assert {body.header.coarsening for _, body in records} == {0, 1, 2}
    for start in {h.window_start_ns for h, _ in records}:
        window = [h for h, _ in records if h.window_start_ns == start]
        if any(h.last for h in window):
            assert [h.part for h in window] == list(range(len(window)))
    told = sum(int(b.count.sum()) for _, b in records if isinstance(b, EventBatch))
    lost = max(body.header.lost_user for _, body in records)
    closed = max(h.window_start_ns for h, _ in records if h.last) + 10 * S - 1_000_000 * S
    assert told + lost == len(SimulatedNode().events(500 * S, 500 * S + closed)) + 10
    assert bench.queue.refused == 0


def test_lost_calls_are_counted_in_the_header_and_memory_is_corrected(bench: Bench) -> None:
    bench.run(12)
    bench.source.lost = Losses(ring_full=3, threads_full=2, unreturned=1, return_without_entry=7)
    bench.run(9)
    records = bench.records()
    header = records[-1][1].header
    assert (header.lost_kernel, header.lost_user, header.unpaired_returns) == (6, 0, 7)
    assert records[0][1].header.lost_kernel == 0
    last = [body for headers, body in records if headers.keyframe][-1]
    assert isinstance(last, Holdings)
    assert sorted(int(size) >> 30 for size in last.resident_bytes) == [10, 20, 30], "as the kernel counts"


def test_losses_count_from_the_epoch_s_begin(bench: Bench) -> None:
    bench.source.lost = Losses(ring_full=3)
    bench.run(5)
    bench.clock.step(4 * S)
    bench.run(2)
    bench.source.lost = Losses(ring_full=5)
    bench.run(10)
    losses = {headers.id.epoch_ns: body.header.lost_kernel for headers, body in bench.records()}
    assert losses == {500 * S: 3, 505 * S: 2}


@pytest.mark.parametrize("steps", [False, True], ids=["stopped", "clock stepped"])
def test_what_is_lost_after_the_last_look_around_is_in_the_last_header(bench: Bench, steps: bool) -> None:
    bench.run(5)
    bench.agent.tick()  # it has just looked around
    bench.source.lost = Losses(ring_full=3)
    if steps:
        bench.clock.step(4 * S)
        bench.agent.tick()
    bench.agent.stop()
    bench.agent.run()
    header = [body.header for headers, body in bench.records() if headers.id.epoch_ns == 500 * S][-1]
    assert header.lost_kernel == 3


def test_what_returned_before_the_epoch_is_in_no_window_and_its_memory_is_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path, early_ns=S)
    bench.run(11)
    records = bench.records()
    events = [body for _, body in records if isinstance(body, EventBatch)]
    assert sum(len(batch.time_ns) for batch in events) == len(SimulatedNode().events(500 * S, 510 * S))
    keyframe = next(body for headers, body in records if headers.keyframe)
    assert isinstance(keyframe, Holdings)
    assert sorted(int(size) >> 30 for size in keyframe.resident_bytes) == [4, 10, 20, 30, 60]


def test_an_agent_that_fails_does_not_end_its_node(
    bench: Bench, nodes: Callable[[], list[NodeLifetime]]
) -> None:
    bench.source.broken = True
    with pytest.raises(OSError, match="ring"):
        bench.agent.run(ends_node=True)
    assert [life.ended_ns for life in nodes()] == [None]


def test_a_round_is_told_of_before_it_begins_and_none_while_one_stands_still(bench: Bench) -> None:
    """What the liveness probe goes by."""
    told: list[str] = []
    drain = bench.source.drain

    def standing_still() -> RawEvents:
        told.append("stands still")
        bench.agent.stop()
        return drain()

    def on_round() -> None:
        told.append("comes round")
        if len(told) == 2:
            bench.source.drain = standing_still  # type: ignore[method-assign]

    bench.agent.run(on_round=on_round)
    assert told == ["comes round", "comes round", "stands still", "stands still"], "the last: of the end"


@pytest.fixture
def nodes(bench: Bench) -> Callable[[], list[NodeLifetime]]:
    def taken() -> list[NodeLifetime]:
        found = []
        while (ticket := bench.queue.take(0)) is not None:
            if ticket.entry.record == "NodeLifetime":
                assert ticket.entry.key == b"cluster/node/i-1"
                assert ticket.entry.node_key == NODE.key
                found.append(decode(NodeLifetime, ticket.entry.body))
        return found

    return taken


def test_a_stop_that_ends_the_node_says_so(bench: Bench, nodes: Callable[[], list[NodeLifetime]]) -> None:
    bench.agent.stop()
    bench.agent.run(ends_node=True)
    begun, ended = nodes()
    assert (begun.launched_ns, begun.ended_ns) == (1_000_000 * S, None)
    assert (ended.launched_ns, ended.ended_ns) == (1_000_000 * S, 1_000_000 * S)
    assert [d.sharing for d in begun.layout.devices] == ["exclusive", "time_slicing", "exclusive"]


def test_a_stop_that_does_not_end_the_node_leaves_its_life_open(
    bench: Bench, nodes: Callable[[], list[NodeLifetime]]
) -> None:
    bench.agent.stop()
    bench.agent.run()
    assert [life.ended_ns for life in nodes()] == [None]


def test_where_the_inventory_states_lives_the_agent_does_not(
    bench: Bench, nodes: Callable[[], list[NodeLifetime]]
) -> None:
    bench.agent._settings = replace(bench.settings, states_lifetime=False)
    bench.agent.stop()
    bench.agent.run(ends_node=True)
    assert nodes() == []


def test_a_restart_does_not_move_the_launch(tmp_path: Path) -> None:
    assert launched_ns(tmp_path, None, 123) == 123
    assert launched_ns(tmp_path, None, 999) == 123
    assert launched_ns(tmp_path, 55, 999) == 55
    (tmp_path / "launched_ns").write_text("yesterday")
    with pytest.raises(ConfigError, match="launched_ns"):
        launched_ns(tmp_path, None, 1)


def test_the_layout_comes_from_a_file_and_options_win(tmp_path: Path) -> None:
    path = tmp_path / "layout.yaml"
    path.write_text("instance_type: a\nregion: r\ngpu_count: 8\nlabels: {pool: x}\n")
    layout = read_layout(path, {"instance_type": "b", "zone": None})
    assert (layout.instance_type, layout.region, layout.zone) == ("b", "r", "")
    assert (layout.gpu_count, layout.labels) == (8, {"pool": "x"})
    path.write_text("instance: a\n")
    with pytest.raises(ConfigError, match="instance"):
        read_layout(path, {})


def test_a_spool_that_holds_no_segment_is_refused(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="spool"):
        replace(bench.settings, spool_bytes=1000)
