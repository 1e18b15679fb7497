"""The queue of a node: order, bounds, and what survives a crash."""

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpuledger.agent.spool import Entry, Journal, JournalFull, NodeLock, NodeQueue, Pressure, node_lock
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import NodeKey

MIB = 1 << 20


def entry(number: int, size: int = 100) -> Entry:
    return Entry("EventBatch", b"c/n", number.to_bytes(4, "big") + bytes(size), (("name", b"v"),), b"c/n")


def number(found: Entry) -> int:
    return int.from_bytes(found.body[:4], "big")


def take(queue: NodeQueue, count: int, acknowledge: bool = True) -> list[int]:
    found = []
    for _ in range(count):
        ticket = queue.take(0)
        assert ticket is not None
        found.append(number(ticket.entry))
        if acknowledge:
            queue.acknowledge(ticket)
    return found


def journal(directory: Path, **more: int) -> Journal:
    return Journal(directory, **{"max_bytes": 8 * MIB, **more})


def numbers(found: Journal) -> list[int]:
    return [number(e) for _, e in found.read(found.begin, found.end)]


def test_an_entry_survives_its_way_to_bytes() -> None:
    given = Entry("Holdings", b"k", b"\x00body", (("a", b""), ("b", b"\xff")), b"n/k")
    assert Entry.from_bytes(given.to_bytes()) == given


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_bytes_that_are_no_entry_are_refused(cut: int) -> None:
    with pytest.raises(BadRecord):
        Entry.from_bytes(entry(1).to_bytes()[:cut])


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


def test_the_journal_has_a_bound_and_a_refused_entry_leaves_no_trace(tmp_path: Path) -> None:
    full = journal(tmp_path, max_bytes=3000, segment_bytes=1000)
    for i in range(15):
        full.append(entry(i))
    with pytest.raises(JournalFull):
        full.append(entry(15, size=1500))
    assert full.bytes <= 3000
    assert numbers(full) == list(range(15))


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


def test_a_torn_tail_is_cut_and_what_came_before_it_stays(tmp_path: Path) -> None:
    written = journal(tmp_path)
    for i in range(5):
        written.append(entry(i))
    written.close()
    (segment,) = tmp_path.glob("*.segment")
    whole = segment.stat().st_size
    for cut in (1, 7, 50, 120):
        os.truncate(segment, whole - cut)
        again = journal(tmp_path)
        assert numbers(again) == [0, 1, 2, 3]
        again.append(entry(9))
        assert numbers(again) == [0, 1, 2, 3, 9]
        again.close()
        for later in sorted(tmp_path.glob("*.segment"))[1:]:
            later.unlink()
        rewritten = journal(tmp_path / f"copy-{cut}")
        for i in range(5):
            rewritten.append(entry(i))
        rewritten.close()
        (copy,) = (tmp_path / f"copy-{cut}").glob("*.segment")
        copy.replace(segment)


@pytest.mark.parametrize("segment", [0, -1])
def test_an_entry_with_a_spoiled_byte_is_passed_over_and_counted(tmp_path: Path, segment: int) -> None:
    written = journal(tmp_path, segment_bytes=500)
    for i in range(10):
        written.append(entry(i))
    written.close()
    path = sorted(tmp_path.glob("*.segment"))[segment]
    data = bytearray(path.read_bytes())
    data[8 + 20] ^= 0xFF  # the first entry's bytes
    path.write_bytes(data)
    found = journal(tmp_path)
    spoiled = 0 if segment == 0 else 8
    assert numbers(found) == [i for i in range(10) if i != spoiled]
    assert found.damaged_bytes == 8 + len(entry(0).to_bytes())
    found.append(entry(10))
    assert numbers(found)[-1] == 10


@pytest.mark.parametrize("segment", [0, -1])
def test_a_spoiled_length_ends_its_segment_and_is_counted(tmp_path: Path, segment: int) -> None:
    written = journal(tmp_path, segment_bytes=500)
    for i in range(10):
        written.append(entry(i))
    written.close()
    path = sorted(tmp_path.glob("*.segment"))[segment]
    data = bytearray(path.read_bytes())
    data[8] ^= 0xFF
    path.write_bytes(data)
    found = journal(tmp_path)
    assert numbers(found) == (list(range(4, 10)) if segment == 0 else list(range(8)))
    assert found.damaged_bytes == len(data) - 8


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


def test_after_kill_9_in_the_middle_of_writing_every_whole_entry_is_there(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from gpuledger.agent.spool import Entry, Journal
        journal = Journal(Path(sys.argv[1]), 1 << 28, segment_bytes=20_000)
        for i in range(1 << 30):
            journal.append(Entry("EventBatch", b"c/n", i.to_bytes(4, "big") + bytes(i % 997)))
            if i % 50 == 0:
                print(i, flush=True)
        """
    )
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            said = 0
            for line in child.stdout:
                said = int(line)
                if said >= random.Random(1).randrange(300, 900):
                    child.kill()
                    break
        found = journal(tmp_path, max_bytes=1 << 28)
        got = numbers(found)
        assert got == list(range(len(got)))
        assert len(got) > said
        found.acknowledge(found.end)
        found.close()
