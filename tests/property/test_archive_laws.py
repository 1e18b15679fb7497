"""Whatever lies in Kafka comes out of an archive as it went in, and no offset is in it twice."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.archive.compact import compact
from gpuledger.archive.envelope import pack, unpack
from gpuledger.archive.log import ArchiveLog, chain_of
from gpuledger.archive.manifest import Commit, absent_offsets, chain
from gpuledger.archive.store import Directory
from gpuledger.archive.verify import verify
from gpuledger.archive.writing import commit, write_run
from gpuledger.bus import Incoming

HOUR_MS = 3_600_000
TOPIC = "gpu.telemetry"
BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), BYTES), max_size=3).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> list[Incoming]:
    """Records of a partition, ascending, with gaps, of some clusters and hours."""
    offset, append_ms, records = draw(st.integers(0, 5)), HOUR_MS, []
    for _ in range(draw(st.integers(1, 12))):
        key = draw(st.sampled_from([b"a/n", b"b/n", b"..%2f/n", b"no-slash", b"\xff/n", None]))
        records.append(Incoming(TOPIC, 3, offset, append_ms, key, draw(BYTES), draw(HEADERS)))
        offset += draw(st.integers(1, 3))
        append_ms += draw(st.sampled_from([0, 1, HOUR_MS // 2]))
    return records


@given(logs())
def test_a_file_gives_back_every_byte_of_its_records(records: list[Incoming]) -> None:
    assert unpack(pack(records)) == records
    assert unpack(pack(records), with_values=False) == [record._replace(value=None) for record in records]


@settings(max_examples=40, deadline=None)
@given(logs(), st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(1, 8))
def test_an_archive_reads_as_the_log_it_was_copied_from_also_compacted(
    records: list[Incoming], sizes: list[int], hours_over: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = Directory(Path(name))
        first, rest = records[0].offset, list(records)
        while rest:
            size = sizes[len(rest) % len(sizes)]
            run, rest = rest[:size], rest[size:]
            commit(store, write_run(store, run, first, run[-1].offset + 1))
            first = run[-1].offset + 1
        assert list(ArchiveLog(store).read_to_end(TOPIC, 3)) == records
        before = chain_of(store, TOPIC, 3)
        compact(store, (1 + hours_over) * HOUR_MS)
        after = chain_of(store, TOPIC, 3)
        assert list(ArchiveLog(store).read_to_end(TOPIC, 3)) == records
        assert len(after.commits) <= len(before.commits)
        assert after.end == before.end
        verdict = verify(store)
        assert (verdict.problems, verdict.unnamed) == ([], 0)
        assert verdict.records == len(records)
        middle = records[len(records) // 2].offset
        assert list(ArchiveLog(store).read_range(TOPIC, 3, middle, middle)) == [
            record for record in records if record.offset == middle
        ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=10))
def test_no_offset_counts_twice_in_a_chain_of_any_commits(spans: list[tuple[int, int]]) -> None:
    commits = {first: Commit(TOPIC, 0, first, first + count, 0, -1, -1) for first, count in spans}
    found = chain(commits.values())
    covered = [offset for one in found.commits for offset in range(one.first, one.end)]
    assert len(covered) == len(set(covered))
    missing = {offset for first, end in found.holes for offset in range(first, end)}
    assert not missing & set(covered)
    if covered:
        assert missing | set(covered) == set(range(min(covered), max(covered) + 1))
    assert len(found.commits) + len(found.superseded) == len(commits)


@given(st.sets(st.integers(0, 40)), st.integers(0, 5))
def test_offsets_and_absent_ones_are_the_whole_range(offsets: set[int], more: int) -> None:
    end = max(offsets, default=0) + 1 + more
    absent = [
        o for first, count in absent_offsets(sorted(offsets), 0, end) for o in range(first, first + count)
    ]
    assert sorted([*absent, *offsets]) == list(range(end))
