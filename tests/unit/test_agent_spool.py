"""The queue of a node: order, bounds, and what a disk that fails does to it."""

import os
from pathlib import Path

import pytest

from gpuledger.agent.spool import NodeLock, NodeQueue, Pressure, node_lock
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from tests.support.spool import entry, journal, numbers, take


def test_entries_leave_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path))
    for i in range(7):
        assert queue.append(entry(i))
    assert take(queue, 7) == list(range(7))
    assert queue.take(0) is None
    assert queue.is_empty


def test_live_entries_line_up_behind_what_an_earlier_life_left(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path))
    for i in range(3):
        queue.append(entry(i))
    queue.close()
    queue = NodeQueue(journal(tmp_path))
    queue.append(entry(3))
    assert take(queue, 4) == [0, 1, 2, 3]


def test_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path))
    for i in range(5):
        queue.append(entry(i))
    take(queue, 3)
    queue.close()
    assert numbers(journal(tmp_path)) == [3, 4]


def test_memory_overflows_to_disk_and_the_order_holds(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path, segment_bytes=2000), memory_bytes=1000)
    for i in range(60):
        queue.append(entry(i))
    assert queue.is_behind
    assert take(queue, 10) == list(range(10))
    for i in range(60, 70):
        queue.append(entry(i))
    assert take(queue, 60) == list(range(10, 70))
    assert queue.is_empty
    assert not queue.is_behind


def test_after_a_broken_producer_everything_undelivered_is_sent_again_in_order(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path, segment_bytes=2000), memory_bytes=500)
    for i in range(20):
        queue.append(entry(i))
    take(queue, 4)
    take(queue, 8, acknowledge=False)
    queue.rewind()
    queue.append(entry(20))
    take(queue, 3, acknowledge=False)
    queue.rewind()
    assert take(queue, 17) == list(range(4, 21))


def test_delivered_segments_give_their_space_back(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path, segment_bytes=2000))
    for i in range(500):
        queue.append(entry(i))
        take(queue, 1)
    assert queue.waiting_bytes < 3 * 2000
    assert len(list(tmp_path.glob("*.segment"))) <= 2


def test_a_full_queue_refuses_the_newest_and_counts_it(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path, max_bytes=3000, segment_bytes=1000))
    accepted = [i for i in range(40) if queue.append(entry(i))]
    assert accepted == list(range(len(accepted)))
    assert queue.refused == 40 - len(accepted)
    assert take(queue, len(accepted)) == accepted
    assert queue.append(entry(99)), "there is room again"


def test_pressure_rises_with_the_bytes_that_wait(tmp_path: Path) -> None:
    queue = NodeQueue(journal(tmp_path, max_bytes=10_000, segment_bytes=1000))
    seen = []
    while queue.append(entry(0)):
        seen.append(queue.pressure)
    assert seen == sorted(seen)
    assert set(seen) == {Pressure.NONE, Pressure.TALLY, Pressure.HOLLOW}


def test_a_disk_that_fails_leaves_the_entries_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = NodeQueue(journal(tmp_path), memory_bytes=1000)
    queue.append(entry(0))
    real = os.pwrite

    def full_disk(fd: int, data: bytes, offset: int) -> int:
        return real(fd, data[: len(data) // 2], offset)

    monkeypatch.setattr(os, "pwrite", full_disk)
    kept = [i for i in range(1, 30) if queue.append(entry(i))]
    assert kept == list(range(1, len(kept) + 1))
    assert 3 < len(kept) < 29, "as much as memory may hold"
    assert queue.disk_errors == 29
    monkeypatch.undo()
    assert take(queue, len(kept) + 1) == [0, *kept]
    assert queue.append(entry(50))
    assert take(queue, 1) == [50]


def test_a_disk_that_works_again_gets_what_it_did_not_take_and_memory_keeps_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = NodeQueue(journal(tmp_path, segment_bytes=2000), memory_bytes=1000)
    for i in range(12):
        queue.append(entry(i))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
        for i in range(12, 15):
            assert queue.append(entry(i)), "memory lets go of what the disk has"
    for i in range(15, 60):
        queue.append(entry(i))
    assert queue.waiting * entry(0).size <= 1000
    assert take(queue, 20) == list(range(20))
    queue.close()
    assert numbers(journal(tmp_path)) == list(range(20, 60)), "nothing was in memory alone"


def test_one_node_has_one_agent(tmp_path: Path) -> None:
    with NodeLock(tmp_path), pytest.raises(Refused, match="another agent"):
        NodeLock(tmp_path)
    NodeLock(tmp_path).close()


def test_one_node_has_one_agent_wherever_each_has_its_state(tmp_path: Path) -> None:
    def lock(state: str, boot: str = "boot", node: str = "node", brokers: str = "kafka:9092") -> NodeLock:
        file = node_lock(tmp_path / "run", boot, NodeKey("cluster", node), brokers)
        return NodeLock(tmp_path / state, file)

    with lock("a"):
        with pytest.raises(Refused, match="another agent"):
            lock("b")
        lock("b", node="other").close()
        lock("b", boot="the next").close()
        lock("b", brokers="elsewhere:9092").close()
        with pytest.raises(Refused):
            lock("b")
    lock("b").close()


def test_where_no_lock_can_be_shared_that_of_the_state_directory_stands(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with NodeLock(tmp_path, tmp_path / "file" / "agent.lock"), pytest.raises(Refused):
        NodeLock(tmp_path)
