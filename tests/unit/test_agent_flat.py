"""What the agent keeps is of the living and of the last minutes: never of all processes that there were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuledger.agent.pending import KEEP_NS, MAX_WAITING, PendingNames
from gpuledger.agent.processes import FORGET_AFTER_NS
from gpuledger.agent.service import Agent
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Pod, Process
from gpuledger.kube.reflector import KEEP_GONE_NS
from tests.support.agent import MS, Bench, S, raw
from tests.support.passing import TICK_NS, PassingAgent
from tests.support.passing_node import Passing

W = 10 * S
SETTLED_NS = max(FORGET_AFTER_NS, KEEP_GONE_NS) + 2 * W
PASSING_NS = 300 * S
BUSY = Passing(living=12, life_ns=1500 * MS, calls_per_s=50, mixed=True)
LOOK_NS = 3 * W  # so long the largest of each table is looked for

TABLES: dict[str, Callable[[Agent], int]] = {
    "processes": lambda agent: len(agent._state.processes.all),
    "processes by pid, start and cgroup": lambda agent: len(agent._state.processes._by_key),
    "pids": lambda agent: len(agent._state.processes._living),
    "what processes were told": lambda agent: len(agent._state.processes._evidence._facts),
    "holders": lambda agent: len(agent._state.processes._sights._held),
    "outstanding work": lambda agent: len(agent._state.outstanding.items()),
    "resident memory": lambda agent: len(agent._state.resident._traced),
    "instants of resident memory": lambda agent: len(agent._state.resident._changed_ns),
    "resident memory as the driver has it": lambda agent: len(agent._state.resident._driver),
    "contexts": lambda agent: sum(map(len, agent._state._contexts.values())),
    "learned durations": lambda agent: len(agent._state.learned._seen),
    "ends": lambda agent: len(agent._state._ending),
    "ends that are settled": lambda agent: len(agent._state._over),
    "names that are waited for": lambda agent: len(agent._state.pending),
    "names that a window told": lambda agent: len(agent._state.pending._told | agent._state.pending._there),
    "tallied processes": lambda agent: len(agent._cutter._tallied._stretch),
    "events": lambda agent: sum(map(len, agent._cutter._waiting + agent._cutter._ready)),
    "measurements": lambda agent: len(agent._cutter._measured._samples),
    "gaps": lambda agent: len(agent._cutter._measured._gaps),
    "queue": lambda agent: agent._queue.waiting,
    "files of the spool": lambda agent: len(agent._queue._journal._sizes),
}
SLACK = 12  # of what lives: where in its second and its window the agent is looked at


def largest(passing: PassingAgent) -> dict[str, int]:
    """The most that each table has in some windows."""
    found = dict.fromkeys(TABLES, 0)
    for _ in range(LOOK_NS // TICK_NS):
        passing.pass_ns(TICK_NS)
        found = {name: max(found[name], size(passing.agent)) for name, size in TABLES.items()}
    return found


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """How large each table becomes when the agent has settled, and 2,400 processes later."""
    passing = PassingAgent(tmp_path_factory.mktemp("agent"), BUSY)
    passing.pass_ns(SETTLED_NS)
    before, seen = largest(passing), passing.node.seen
    passing.pass_ns(PASSING_NS)
    assert passing.node.seen - seen >= PASSING_NS // BUSY.every_ns
    yield before, largest(passing)
    passing.queue.close()


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_no_larger_for_processes_that_came_and_went(
    table: str, sizes: tuple[dict[str, int], dict[str, int]]
) -> None:
    before, after = sizes
    assert after[table] <= before[table] + SLACK


def test_every_table_is_in_use_before_and_after(sizes: tuple[dict[str, int], dict[str, int]]) -> None:
    """Else it would be flat whatever the agent forgot to forget."""
    assert [[name for name, size in looked.items() if not size] for looked in sizes] == [[], []]


def pending(number: int) -> Process:
    return Process(number, started_ns=1, consumer_kind="pod", consumer=f"pod-{number}", pending=True)


def nobody(_: str) -> Pod | None:
    return None


def nameless(_: str) -> str:
    return ""


def test_a_process_that_nobody_names_is_kept_once_however_many_windows_tell_of_it() -> None:
    names = PendingNames()
    for window in range(0, 100 * W, W):
        names.note(window, [pending(1)])
        assert names.take(window, nobody, nameless) == []
    assert len(names) == 1
    kept = [process for said in names._waiting.values() for process in said.values()]
    assert len(kept) == 100
    assert len({id(process) for process in kept}) == 1
    found = names.take(100 * W, lambda uid: Pod(uid, name="train"), nameless)
    assert [amendment.window_start_ns for amendment in found] == list(range(0, 100 * W, W))
    assert len(names) == 0


def test_what_a_window_said_of_a_process_is_what_its_amendment_says() -> None:
    names = PendingNames()
    names.note(0, [pending(1)])
    names.note(W, [replace(pending(1), ended_ns=15 * S)])
    found = names.take(2 * W, lambda uid: Pod(uid, name="train"), nameless)
    assert [[process.ended_ns for process in amendment.processes] for amendment in found] == [
        [None],
        [15 * S],
    ]


def test_names_are_waited_for_an_hour_at_most() -> None:
    names = PendingNames()
    names.note(0, [pending(1)])
    names.take(KEEP_NS, nobody, nameless)
    assert len(names) == 1
    names.take(KEEP_NS + 1, nobody, nameless)
    assert len(names) == 0


def test_of_very_many_nameless_processes_the_first_are_given_up() -> None:
    names = PendingNames()
    names.note(0, map(pending, range(MAX_WAITING + 10)))
    assert len(names) == MAX_WAITING
    (amendment,) = names.take(W, lambda uid: Pod(uid), nameless)
    assert {process.pid for process in amendment.processes} == set(range(10, MAX_WAITING + 10))


def test_the_last_calls_of_a_process_that_come_when_its_end_is_settled_leave_nothing() -> None:
    bench = Bench()
    state = bench.state
    state.apply(bench.resolve(raw(S)))
    bench.reader.gone = [1]
    state.note_ends(2 * S)
    state.settle(3 * S)
    assert state.outstanding.items() == []
    late = bench.resolve(raw(S + 1), raw(S + 2, Operation.ALLOCATE_DEVICE, bytes=1 << 20))
    assert late["process"].tolist() == [0, 0]
    state.apply(late)
    assert state.outstanding.items() == []
    assert state.resident.items() == []
