"""Lines of Tetragon's export, and the file that they are in."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agent.tetragon.follow import FollowedFile
from gpuledger.agent.tetragon.lines import Call, Dropped, UnreadableLine, read_line

UID = "1b3a6f0e-7f51-4c0e-9c56-0e1f5a3c2d41"
SECOND_NS = 1_000_000_000
NESTED = st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({})


def event(**changes: Any) -> dict[str, Any]:
    """A process_uprobe event as Tetragon 1.5 writes it."""
    process = {
        "exec_id": "bm9kZTE6MTIzOjQ1Ng==",
        "pid": 456,
        "uid": 0,
        "cwd": "/",
        "binary": "/usr/bin/python3",
        "arguments": "train.py",
        "flags": "execve clone",
        "start_time": "2026-03-01T10:00:00.000000001Z",
        "auid": 4294967295,
        "pod": {
            "namespace": "ml",
            "name": "train-0",
            "uid": UID,
            "container": {"id": "containerd://" + 64 * "a", "name": "main", "pid": 1},
            "workload": "train",
            "workload_kind": "StatefulSet",
        },
        "docker": 31 * "a",
        "tid": 457,
        **changes.pop("process", {}),
    }
    uprobe = {
        "process": process,
        "path": "/procRoot/1/root/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "symbol": "cuMemcpyHtoDAsync_v2",
        "policy_name": "gpuledger-cuda",
        "args": [{"size_arg": "4099"}, {"size_arg": "140000000000000"}],
        **changes.pop("uprobe", {}),
    }
    return {"process_uprobe": uprobe, "node_name": "node1", "time": "2026-03-01T10:00:01.5Z", **changes}


def read(changed: dict[str, Any]) -> Call | Dropped | None:
    return read_line(json.dumps(changed).encode())


def test_an_event_says_who_called_what_when_and_with_which_arguments() -> None:
    begin = 1_772_359_200 * SECOND_NS  # 2026-03-01T10:00:00Z
    assert read(event()) == Call(
        time_ns=begin + SECOND_NS * 3 // 2,
        symbol="cuMemcpyHtoDAsync_v2",
        arguments=(4099, 140_000_000_000_000),
        exec_id="bm9kZTE6MTIzOjQ1Ng==",
        pid=456,
        tid=457,
        started_ns=begin + 1,
        pod_uid=UID,
        container_id=64 * "a",
    )


def test_nine_digits_and_other_time_zones_are_exact() -> None:
    call = read(event(time="2026-03-01T12:00:01.123456789+02:00"))
    assert isinstance(call, Call)
    assert call.time_ns == 1_772_359_201_123_456_789


def test_a_host_process_has_no_pod_and_an_older_tetragon_no_thread() -> None:
    changed = event()
    for name in ("pod", "docker", "tid"):
        del changed["process_uprobe"]["process"][name]
    call = read(changed)
    assert isinstance(call, Call)
    assert (call.pod_uid, call.container_id, call.tid) == ("", "", 456)


def test_events_of_other_kinds_and_other_policies_are_none_of_ours() -> None:
    assert read({"process_exec": {"process": {}}, "time": "2026-03-01T10:00:01Z"}) is None
    assert read(event(uprobe={"policy_name": "somebody-else"})) is None


def test_what_tetragon_did_not_export_is_told() -> None:
    assert read({"rate_limit_info": {"number_of_dropped_process_events": "23"}}) == Dropped(23)


@pytest.mark.parametrize(
    "changed",
    [
        event(time="yesterday"),
        event(time="2026-13-01T10:00:01Z"),
        event(time=None),
        event(process={"pid": None}),
        event(process={"pid": 1 << 40}),
        event(process={"pid": -1}),
        event(process={"pod": "train-0"}),
        event(process={"pod": {"uid": 7}}),
        event(process={"pod": {"container": ["main"]}}),
        event(process={"exec_id": 5000 * "x"}),
        event(process={"start_time": "2026-03-01"}),
        event(uprobe={"process": None}),
        event(uprobe={"args": {"size_arg": "1"}}),
        event(uprobe={"args": ["1"]}),
        event(uprobe={"args": [{"size_arg": "1e9"}]}),
        event(uprobe={"args": [{"size_arg": 1.5}]}),
        event(uprobe={"args": [{"size_arg": str(1 << 64)}]}),
        event(uprobe={"symbol": 3}),
        event(process_uprobe=[]),
        {"rate_limit_info": []},
    ],
)
def test_an_event_that_is_not_whole_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(UnreadableLine):
        read(changed)


@given(st.binary(max_size=200) | NESTED)
def test_no_bytes_at_all_raise_anything_else(line: bytes) -> None:
    with contextlib.suppress(UnreadableLine):
        read_line(line)


@given(st.data())
def test_an_event_with_anything_in_any_place_is_read_or_refused(data: st.DataObject) -> None:
    value = data.draw(ANYTHING)
    changed = event()
    places: list[tuple[dict[str, Any], str]] = [(changed, key) for key in changed]
    uprobe = changed["process_uprobe"]
    for parent in (uprobe, uprobe["process"], uprobe["process"]["pod"], uprobe["args"][0]):
        places += [(parent, key) for key in parent]
    parent, key = data.draw(st.sampled_from(places))
    parent[key] = value
    with contextlib.suppress(UnreadableLine):
        read(changed)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UnreadableLine):
        read_line(b"[" * 100_000)


Follow = Callable[..., FollowedFile]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Opens followed files, and closes them."""
    with contextlib.ExitStack() as stack:

        def open_(path: Path, **options: int) -> FollowedFile:
            file = FollowedFile(path, **options)
            stack.callback(file.close)
            file.open()
            return file

        yield open_


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def lines(file: FollowedFile) -> list[bytes]:
    return file.read(1 << 20)


def test_what_was_there_before_is_not_read(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    append(path, b"old\nhalf a li")
    file = follow(path)
    append(path, b"ne\nnew\n")
    assert lines(file) == [b"new"]
    assert file.left_out == 0


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    file = follow(path)
    assert lines(file) == []
    append(path, b"first\n")
    assert lines(file) == [b"first"]


def test_a_line_is_read_when_it_is_whole(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    path.touch()
    file = follow(path)
    append(path, b"one\ntw")
    assert lines(file) == [b"one"]
    append(path, b"o\n\n")
    assert lines(file) == [b"two"]


def test_what_comes_between_the_last_read_and_the_renaming_is_read(
    tmp_path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rotated = tmp_path / "tetragon.log", tmp_path / "rotated"
    path.touch()
    file = follow(path)
    looked = FollowedFile._was_replaced

    def at_that_moment(followed: FollowedFile) -> bool:
        if path.exists() and not rotated.exists():
            append(path, b"last\n")
            path.rename(rotated)
            append(path, b"first\n")
        return looked(followed)

    monkeypatch.setattr(FollowedFile, "_was_replaced", at_that_moment)
    assert lines(file) == [b"last", b"first"]


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    path.touch()
    file = follow(path)
    append(path, b"one\n")
    assert lines(file) == [b"one"]
    append(path, b"two\n")
    path.rename(tmp_path / "tetragon-2026.log")
    assert lines(file) == [b"two"]
    append(tmp_path / "tetragon-2026.log", b"three\ncut o")
    append(path, b"four\n")
    assert lines(file) + lines(file) == [b"three", b"four"]
    assert file.left_out == 1


def test_a_file_that_was_cut_down_is_begun_anew(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    path.touch()
    file = follow(path)
    append(path, b"a longer line\n")
    assert lines(file) == [b"a longer line"]
    path.write_bytes(b"short\n")
    assert lines(file) == [b"short"]


def test_a_line_without_end_is_given_up_and_what_follows_is_read(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    path.touch()
    file = follow(path, max_line_bytes=10)
    append(path, 25 * b"x")
    assert lines(file) == []
    append(path, 25 * b"x" + b"\nnext\n" + 11 * b"y" + b"\nlast\n")
    assert lines(file) == [b"next", b"last"]
    assert file.left_out == 2


def test_a_drain_is_bounded_and_the_rest_is_not_lost(tmp_path: Path, follow: Follow) -> None:
    path = tmp_path / "tetragon.log"
    path.touch()
    file = follow(path)
    append(path, b"".join(b"%05d\n" % number for number in range(1000)))
    taken = []
    while some := file.read(600):
        assert len(some) <= 101
        taken += some
    assert taken == [b"%05d" % number for number in range(1000)]


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda b: b"\n" not in b), max_size=30), st.data())
def test_no_line_is_lost_or_doubled_however_it_comes(written: list[bytes], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        path = Path(directory, "log")
        path.touch()
        file = FollowedFile(path)
        stack.callback(file.close)
        file.open()
        taken: list[bytes] = []
        for number, line in enumerate(written):
            cut = data.draw(st.integers(0, len(line)))
            append(path, line[:cut])
            if data.draw(st.booleans()):
                taken += lines(file)
            append(path, line[cut:] + b"\n")
            if data.draw(st.integers(0, 4)) == 0:
                path.rename(Path(directory, f"log-{number}"))
                path.touch()
                taken += lines(file)
        taken += lines(file)
    assert taken == written
