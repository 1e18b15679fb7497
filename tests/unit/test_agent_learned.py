"""How long a kernel takes is learned where a process had the device for itself, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.agent.events import NO_THREAD, Events, work_of
from gpuledger.agent.learned import ENOUGH, Kernel, LearnedDurations
from gpuledger.agent.outstanding import Pending
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holdings
from tests.support.agent import MS, Bench, S, event, joined

SYNC = Operation.SYNCHRONIZE_STREAM
KERNEL = Kernel(0, 7, 256)
MANY = ENOUGH + 2


def burst(start_ns: int, took_ns: int, launches: int = 2, **columns: int) -> list[Events]:
    """Launches in a row from ``start_ns`` on, and the wait that returns when they are done."""
    values = {"function": KERNEL.function, "launched_threads": KERNEL.threads, **columns}
    made = [event(start_ns + 10 * n + 5, duration_ns=5, **values) for n in range(launches)]
    wait = {name: value for name, value in columns.items() if name in ("process", "device")}
    return [*made, event(start_ns + took_ns, SYNC, duration_ns=took_ns // 2, **wait)]


def bursts(took_ns: int = MS, **columns: int) -> list[Events]:
    return [row for n in range(MANY) for row in burst(S + 10 * n * MS, took_ns, **columns)]


def learn(
    rows: Iterable[Events], before: Iterable[tuple[tuple[int, int], Pending]] = ()
) -> list[tuple[Kernel, int, int]]:
    learned = LearnedDurations()
    events = joined(sorted(rows, key=lambda row: int(row["time_ns"][0])))
    learned.apply(events, work_of(events), before)
    return learned.known()


def test_a_burst_s_time_is_shared_by_its_launches() -> None:
    assert learn(bursts()) == [(KERNEL, MS // 2, 2 * MANY)]


def test_functions_sizes_and_processes_are_told_apart() -> None:
    other = [row for n in range(MANY) for row in burst(S + 10 * n * MS + 5 * MS, 2 * MS, 1, function=9)]
    assert learn([*bursts(), *other]) == [(KERNEL, MS // 2, 2 * MANY), (Kernel(0, 9, 256), 2 * MS, MANY)]


def test_nothing_is_learned_beside_another_process() -> None:
    assert learn([*bursts(), event(S - 1, process=1)]) == []
    assert learn(bursts(), [((1, 0), Pending(5, 1))]) == []
    inside = [event(S + 10 * n * MS + MS // 2, process=1) for n in range(MANY)]
    assert learn([*bursts(), *inside]) == []


def test_another_device_is_no_company() -> None:
    assert learn([*bursts(), event(S - 1, process=1, device=1)]) == [(KERNEL, MS // 2, 2 * MANY)]
    assert learn(bursts(), [((1, 1), Pending(5, 1))]) == [(KERNEL, MS // 2, 2 * MANY)]


def test_nothing_is_learned_of_work_that_was_there_before() -> None:
    assert learn(burst(S, MS), [((0, 0), Pending(5, 1))]) == []


def test_nothing_is_learned_of_bursts_of_several_functions() -> None:
    rows = [row for n in range(MANY) for row in burst(S + 10 * n * MS, MS)]
    extra = [event(S + 10 * n * MS + 100, duration_ns=5, function=8) for n in range(MANY)]
    assert learn([*rows, *extra]) == []


def test_nothing_is_learned_of_a_wait_that_did_not_block() -> None:
    rows = [event(S + n * MS, duration_ns=5, function=7) for n in range(MANY)]
    waits = [event(S + n * MS + MS // 2, SYNC, duration_ns=3000) for n in range(MANY)]
    assert learn([*rows, *waits]) == []


def test_nothing_is_learned_of_what_differs_from_time_to_time_or_was_seen_too_seldom() -> None:
    uneven = [row for n in range(MANY) for row in burst(S + 10 * n * MS, (1 + n) * MS)]
    assert learn(uneven) == []
    assert learn(bursts()[: 3 * (ENOUGH - 1)]) == []


def test_nothing_is_learned_of_tallies() -> None:
    assert learn([event(S, count=5, tid=NO_THREAD, span_ns=9), event(S + MS, SYNC, duration_ns=MS)]) == []


def test_the_keyframe_says_what_is_learned_while_the_process_lives() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(joined(bursts()))
    (frame,) = [p for p in bench.advance(11 * S) if isinstance(p, Holdings)]
    assert frame.learned_process.tolist() == [0]
    assert frame.learned_function.tolist() == [KERNEL.function]
    assert frame.learned_threads.tolist() == [KERNEL.threads]
    assert frame.learned_duration_ns.tolist() == [MS // 2]
    assert frame.learned_count.tolist() == [2 * MANY]
    bench.reader.gone = [1]
    bench.state.note_ends(12 * S)
    (frame,) = [p for p in bench.advance(21 * S) if isinstance(p, Holdings)]
    assert len(frame.learned_process) == 0
    assert bench.state.learned.known() == []
