"""The archive's manifest and stores: what is refused, what is noticed, what a crash leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gpuledger.archive import compact as compaction
from gpuledger.archive.cli import app
from gpuledger.archive.compact import compact
from gpuledger.archive.envelope import ROW_GROUP_BYTES, pack, unpack
from gpuledger.archive.log import ArchiveLog, chain_of
from gpuledger.archive.manifest import Commit
from gpuledger.archive.store import Directory, Store, open_store
from gpuledger.archive.verify import verify
from gpuledger.archive.writing import commit, lost_to_retention, write_run
from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord, ConfigError, Refused, StoreUnavailable

TOPIC = "gpu.nodes"
HOUR_MS = 3_600_000


def records(first: int, count: int, cluster: str = "a") -> list[Incoming]:
    return [
        Incoming(TOPIC, 0, offset, HOUR_MS + offset, f"{cluster}/n{offset}".encode(), b"v%d" % offset)
        for offset in range(first, first + count)
    ]


def archive(store: Store, first: int, count: int) -> Commit:
    entry = write_run(store, records(first, count), first, first + count)
    commit(store, entry)
    return entry


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_an_entry_that_was_changed_or_cut_off_is_refused(store: Directory) -> None:
    body = archive(store, 0, 3).to_bytes()
    assert Commit.from_bytes(body).to_bytes() == body
    for wrong in (body.replace(b'"records":3', b'"records":4', 1), body[:-20], b"", b"{}", b"[1]"):
        with pytest.raises(BadRecord, match="bad_manifest"):
            Commit.from_bytes(wrong)


def test_a_second_archiver_that_saw_the_same_end_is_refused(store: Directory) -> None:
    archive(store, 0, 3)
    ours = archive(store, 3, 2)
    with pytest.raises(Refused, match="another archiver"):
        commit(store, write_run(store, records(3, 4), 3, 7))
    assert chain_of(store, TOPIC, 0).end == 5
    commit(store, ours)  # what was written by ourselves, its answer lost, is no other's


def test_holes_changed_files_and_missing_files_are_problems(store: Directory) -> None:
    first = archive(store, 0, 3)
    second = archive(store, 5, 2)
    assert verify(store).problems == [f"{TOPIC}/0: offsets 3 to 4 are in no commit"]
    path = Path(store.url) / first.files[0].name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\0")
    (Path(store.url) / second.files[0].name).unlink()
    problems = verify(store).problems
    assert len(problems) == 3
    assert "its checksum is another" in problems[1]
    assert "is not there" in problems[2]


def test_records_that_the_manifest_counts_otherwise_are_problems(store: Directory) -> None:
    entry = write_run(store, records(0, 3), 0, 3)
    store.put(entry.name, replace(entry, end=5).to_bytes())
    assert verify(store).problems == [f"{TOPIC}/0: of offsets 0 to 4 2 are missing, 0 repeated"]
    store.put(entry.name, replace(entry, files=entry.files * 2).to_bytes())
    assert verify(store).problems == [f"{TOPIC}/0: of offsets 0 to 2 0 are missing, 3 repeated"]


def test_what_retention_took_is_said_and_is_no_hole(store: Directory) -> None:
    commit(store, lost_to_retention(TOPIC, 0, 0, 7))
    archive(store, 7, 2)
    verdict = verify(store)
    assert (verdict.problems, verdict.lost, verdict.records) == ([], 7, 2)


def test_a_compaction_that_died_at_any_step_loses_nothing_and_the_next_cleans_up(
    store: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(store, 0, 2)
    archive(store, 2, 3)
    archive(store, 5, 1)
    steps = 0

    class Dying(Directory):
        """Ends before its n-th change."""

        def put(self, name: str, data: bytes) -> None:
            self._step()
            super().put(name, data)

        def delete(self, name: str) -> None:
            self._step()
            super().delete(name)

        def _step(self) -> None:
            nonlocal steps
            steps -= 1
            if steps < 0:
                raise StoreUnavailable("gone")

    died = 0
    for allowed in range(20):
        steps = allowed
        try:
            compact(Dying(Path(store.url)), 3 * HOUR_MS)
        except StoreUnavailable:
            died += 1
        verdict = verify(store)
        assert (verdict.problems, verdict.records) == ([], 6)
        assert list(ArchiveLog(store).read_to_end(TOPIC, 0)) == records(0, 6)
    assert died >= 4
    assert len(chain_of(store, TOPIC, 0).commits) == 1
    assert verify(store).unnamed == 0
    assert compaction.compact(store, 3 * HOUR_MS).deleted == 0


def test_files_that_are_being_written_are_not_deleted(store: Directory) -> None:
    archive(store, 0, 2)
    entry = write_run(store, records(2, 2), 2, 4)  # its commit is still to come
    assert compact(store, 3 * HOUR_MS).deleted == 0
    commit(store, entry)
    assert list(ArchiveLog(store).read_to_end(TOPIC, 0)) == records(0, 4)


def test_only_the_files_of_a_cluster_are_read_when_one_is_asked_for(store: Directory) -> None:
    mixed = sorted([*records(0, 1, "a"), *records(1, 2, "b"), *records(3, 1, "a")], key=lambda r: r.offset)
    commit(store, write_run(store, mixed, 0, 4))
    log = ArchiveLog(store, wanted=lambda file: file.cluster == "b")
    assert [record.offset for record in log.read_to_end(TOPIC, 0)] == [1, 2]


def test_urls_that_nobody_reaches_or_that_hold_secrets_are_refused() -> None:
    with pytest.raises(ConfigError, match="is no store"):
        open_store("nonsense://bucket/x")
    with pytest.raises(ConfigError, match="secret"):
        open_store("s3://key:hidden@bucket/x")


def test_the_commands_say_what_is_there_and_fail_where_it_is_not_whole(store: Directory) -> None:
    runner = CliRunner()
    archive(store, 0, 3)
    listed = json.loads(runner.invoke(app, ["list", store.url, "--json"]).stdout)
    assert [(row["topic"], row["first"], row["end"], row["clusters"]) for row in listed] == [
        (TOPIC, 0, 3, ["a"])
    ]
    assert runner.invoke(app, ["verify", store.url]).exit_code == 0
    archive(store, 9, 3)
    failed = runner.invoke(app, ["verify", store.url])
    assert failed.exit_code == 1
    assert "offsets 3 to 8 are in no commit" in failed.stdout


def test_a_file_is_made_in_groups_of_rows_that_are_bounded_by_their_bytes() -> None:
    value = bytes(ROW_GROUP_BYTES // 4)
    many = [one._replace(value=value) for one in records(0, 10)]
    data = pack(many)
    assert unpack(data) == many
    groups = pq.ParquetFile(pa.BufferReader(data)).metadata
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [4, 4, 2]
