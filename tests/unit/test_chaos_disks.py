"""The small disk of the chaos runs."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.disks import Disk

DISK_BYTES = 256 << 20
PIECE_BYTES = 1 << 16


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk", DISK_BYTES)
    if not made.mount():
        pytest.skip("this process may mount no tmpfs")
    yield made
    made.unmount()


def write(path: Path, pieces: int) -> int | None:
    """Pieces at the end of a file; the number of the error that ended it, if any."""
    try:
        with path.open("ab", buffering=0) as file:
            for _ in range(pieces):
                file.write(bytes(PIECE_BYTES))
    except OSError as error:
        return error.errno
    return None


def test_a_full_disk_takes_nothing_more_keeps_what_it_has_and_has_room_again(disk: Disk) -> None:
    before = disk.directory / "before"
    assert write(before, 3) is None
    for _ in range(2):
        disk.fill()
        assert disk.is_full
        assert write(disk.directory / "behind", 1) == errno.ENOSPC
        assert before.stat().st_size == 3 * PIECE_BYTES
        disk.free()
        assert not disk.is_full
    assert write(disk.directory / "behind", 23) is None


def test_an_empty_disk_can_be_full(disk: Disk) -> None:
    disk.fill()
    assert write(disk.directory / "behind", 2) == errno.ENOSPC


def test_a_disk_that_is_written_to_all_the_time_is_full_soon(disk: Disk) -> None:
    pieces = DISK_BYTES // PIECE_BYTES // 4
    ends: list[int | None] = []
    begun = disk.directory / "begun"
    writer = threading.Thread(target=lambda: ends.append(write(begun, pieces)))
    writer.start()
    disk.fill()
    writer.join()
    assert write(begun, pieces) == errno.ENOSPC  # both take half of a disk
    assert ends in ([errno.ENOSPC], [None])
    disk.free()
    assert write(begun, 1) is None
