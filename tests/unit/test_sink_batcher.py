"""When a batch is due, what it answers for, and when the source must rest."""

from __future__ import annotations

from gpuledger.contract.clock import ManualClock
from gpuledger.sink.batcher import Batcher, Flow
from tests.support.charge_sets import WINDOW_NS, arrival, charge_set

MS = 1_000_000


def test_a_batch_is_due_when_its_oldest_record_has_waited() -> None:
    clock = ManualClock()
    batcher = Batcher(clock, max_rows=100, max_wait_s=0.25)
    assert not batcher.due()
    batcher.add(arrival(charge_set(0), 1))
    clock.advance(249 * MS)
    batcher.add(arrival(charge_set(WINDOW_NS), 2))
    assert not batcher.due()
    clock.advance(1 * MS)
    assert batcher.due()


def test_a_batch_is_due_at_once_when_enough_rows_came() -> None:
    batcher = Batcher(ManualClock(), max_rows=7)
    batcher.add(arrival(charge_set(0, 3), 1))
    batcher.add(arrival(charge_set(WINDOW_NS, 3), 2))
    assert not batcher.due()
    batcher.add(arrival(charge_set(2 * WINDOW_NS, 1), 3))
    assert batcher.due()


def test_a_batch_answers_for_records_without_rows_too() -> None:
    batcher = Batcher(ManualClock())
    batcher.add(arrival(charge_set(0, 0), 4))
    batcher.skip("gpu.charges", 0, 5)
    batcher.skip("gpu.charges", 1, 9)
    assert batcher.take().through == {("gpu.charges", 0): 6, ("gpu.charges", 1): 10}
    assert batcher.take().through == {}


def flow_after(rows: int) -> Flow:
    batcher = Batcher(ManualClock(), max_rows=10)
    batcher.add(arrival(charge_set(0, rows), 0))
    return batcher.flow


def test_the_source_rests_while_too_much_is_held() -> None:
    assert flow_after(38) is Flow.OPEN
    assert flow_after(39) is Flow.PAUSED


def test_the_source_goes_on_once_the_batch_is_taken() -> None:
    batcher = Batcher(ManualClock(), max_rows=10)
    batcher.add(arrival(charge_set(0, 50), 0))
    batcher.take()
    assert batcher.flow is Flow.OPEN


def test_empty_sets_are_held_too() -> None:
    batcher = Batcher(ManualClock(), max_rows=1)
    for offset in range(4):
        batcher.add(arrival(charge_set(offset * WINDOW_NS, 0), offset))
    assert batcher.flow is Flow.PAUSED


def test_what_came_from_a_partition_that_left_is_neither_written_nor_committed() -> None:
    clock = ManualClock()
    batcher = Batcher(clock)
    batcher.add(arrival(charge_set(0), 1, partition=0))
    batcher.add(arrival(charge_set(0, node="n2"), 7, partition=1))
    batcher.drop({("gpu.charges", 0)})
    batch = batcher.take()
    assert [a.partition for a in batch.arrivals] == [1]
    assert batch.through == {("gpu.charges", 1): 8}


def test_nothing_is_due_when_every_partition_left() -> None:
    clock = ManualClock()
    batcher = Batcher(clock)
    batcher.add(arrival(charge_set(0), 1))
    batcher.drop({("gpu.charges", 0)})
    clock.advance(10**12)
    assert not batcher.due()


def token_of(*offsets: int, inputs: int = 5) -> str:
    batcher = Batcher(ManualClock())
    for offset in offsets:
        batcher.add(arrival(charge_set(offset * WINDOW_NS, inputs=inputs), offset, partition=2))
    return batcher.take().token


def test_the_token_names_topic_partition_offsets_and_content() -> None:
    assert token_of(3, 4, 5).startswith("gpu.charges/2:3-5#")
    assert token_of(3, 4, 5) == token_of(3, 4, 5)


def test_other_sets_at_the_same_offsets_have_another_token() -> None:
    assert token_of(3, inputs=5) != token_of(3, inputs=6)
    assert token_of(3, 4, 5) != token_of(3, 5)
