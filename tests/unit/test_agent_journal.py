"""Entries on disk: their order, the bound, and what survives a crash and a spoiled disk."""

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpuledger.agent.spool import Entry, JournalFull
from gpuledger.contract.errors import BadRecord
from tests.support.spool import entry, journal, numbers


def test_an_entry_survives_its_way_to_bytes() -> None:
    given = Entry("Holdings", b"k", b"\x00body", (("a", b""), ("b", b"\xff")), b"n/k")
    assert Entry.from_bytes(given.to_bytes()) == given


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_bytes_that_are_no_entry_are_refused(cut: int) -> None:
    with pytest.raises(BadRecord):
        Entry.from_bytes(entry(1).to_bytes()[:cut])


def test_the_journal_has_a_bound_and_a_refused_entry_leaves_no_trace(tmp_path: Path) -> None:
    full = journal(tmp_path, max_bytes=3000, segment_bytes=1000)
    for i in range(15):
        full.append(entry(i))
    with pytest.raises(JournalFull):
        full.append(entry(15, size=1500))
    assert full.bytes <= 3000
    assert numbers(full) == list(range(15))


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
