"""What is outstanding and what is resident after a chunk of events."""

import pytest

from gpuledger.agent.events import Events, work_of
from gpuledger.agent.outstanding import Outstanding, Pending
from gpuledger.agent.resident import ResidentMemory
from gpuledger.contract.operations import LAUNCHES, SYNCHRONIZING, Operation
from tests.support.agent import MS, event, joined

SYNC = Operation.SYNCHRONIZE_STREAM


def apply(state: Outstanding, events: Events) -> None:
    state.apply(events, work_of(events))


def test_work_is_outstanding_since_the_call_of_the_first_launch_after_idle() -> None:
    state = Outstanding()
    apply(state, joined([event(100, duration_ns=7), event(120), event(130)]))
    assert state.items() == [((0, 0), Pending(93, 3))]


@pytest.mark.parametrize("operation", sorted(SYNCHRONIZING))
def test_a_synchronising_return_ends_it(operation: Operation) -> None:
    state = Outstanding()
    apply(state, joined([event(100), event(120, operation)]))
    assert state.items() == []


@pytest.mark.parametrize("operation", sorted(LAUNCHES))
def test_launches_after_the_last_synchronising_return_are_outstanding(operation: Operation) -> None:
    state = Outstanding()
    apply(state, joined([event(100), event(110, SYNC), event(120, operation), event(130, operation)]))
    assert state.items() == [((0, 0), Pending(120, 2))]


def test_the_state_goes_on_from_chunk_to_chunk() -> None:
    state = Outstanding()
    for row in (event(100), event(120), event(125, Operation.QUERY_STREAM)):
        apply(state, row)
    assert state.items() == [((0, 0), Pending(100, 2))]
    apply(state, event(130, SYNC))
    assert state.items() == []


def test_processes_and_devices_are_apart() -> None:
    state = Outstanding()
    rows = [event(100), event(101, process=1), event(102, device=1), event(103, device=-1), event(110, SYNC)]
    apply(state, joined(rows))
    assert [key for key, _ in state.items()] == [(0, -1), (0, 1), (1, 0)]


def test_a_launch_that_failed_is_not_outstanding() -> None:
    state = Outstanding()
    apply(state, event(100, result=1))
    assert state.items() == []


def test_a_process_that_ended_has_nothing_outstanding() -> None:
    state = Outstanding()
    apply(state, joined([event(100), event(100, process=1)]))
    state.end(0)
    assert [key for key, _ in state.items()] == [(1, 0)]


def test_another_epoch_s_time_is_a_shift() -> None:
    state = Outstanding()
    apply(state, event(100))
    state.shift(50)
    assert state.items() == [((0, 0), Pending(150, 1))]


def test_allocations_less_frees_are_resident() -> None:
    memory = ResidentMemory()
    memory.apply(
        joined(
            [
                event(1, Operation.ALLOCATE_DEVICE, bytes=100),
                event(2, Operation.ALLOCATE_ASYNC, bytes=10),
                event(3, Operation.ALLOCATE_DEVICE, bytes=1000, result=2),
                event(4, Operation.FREE_DEVICE, bytes=30),
                event(5, Operation.ALLOCATE_MANAGED, bytes=7),
                event(6, Operation.ALLOCATE_DEVICE, bytes=5, device=1, process=1),
            ]
        )
    )
    assert memory.items() == [((0, 0), 80), ((1, 1), 5)]


def test_the_driver_s_figure_counts_where_the_probes_came_too_late() -> None:
    memory = ResidentMemory()
    memory.apply(event(1, Operation.ALLOCATE_DEVICE, bytes=100))
    memory.set_driver(0, 2, {0: 100 + (500 << 20), 1: 300 << 20})
    assert memory.items() == [((0, 0), 100), ((1, 0), 300 << 20)], "a context's own memory is no allocation"
    memory.set_driver(0, 3, {0: 20 << 30})
    assert memory.items() == [((0, 0), 20 << 30)]


def test_a_free_after_the_driver_s_reading_outdates_it() -> None:
    memory = ResidentMemory()
    memory.apply(event(1 * MS, Operation.ALLOCATE_DEVICE, bytes=20 << 30))
    memory.set_driver(0, 2 * MS, {0: 20 << 30})
    memory.apply(event(3 * MS, Operation.FREE_DEVICE, bytes=19 << 30))
    assert memory.items() == [((0, 0), 1 << 30)]
