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
    made.mount()
    yield made
    made.unmount()


def filled(disk: Disk) -> int | None:
    """Fill it; how a write must end then: well, where this process may mount none."""
    if disk.mounted:
        disk.fill()
    assert disk.is_full is disk.mounted
    return errno.ENOSPC if disk.mounted else None


def freed(disk: Disk) -> None:
    """The contrary."""
    if disk.mounted:
        disk.free()
    assert not disk.is_full


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
        expected = filled(disk)
        assert write(disk.directory / "behind", 1) == expected
        assert before.stat().st_size == 3 * PIECE_BYTES
        freed(disk)
    assert write(disk.directory / "behind", 23) is None


def test_an_empty_disk_can_be_full(disk: Disk) -> None:
    expected = filled(disk)
    assert write(disk.directory / "behind", 2) == expected


def test_a_disk_that_is_written_to_all_the_time_is_full_soon(disk: Disk) -> None:
    pieces = DISK_BYTES // PIECE_BYTES // 4
    ends: list[int | None] = []
    begun = disk.directory / "begun"
    writer = threading.Thread(target=lambda: ends.append(write(begun, pieces)))
    writer.start()
    expected = filled(disk)
    writer.join()
    assert write(begun, pieces) == expected  # both take half of a disk
    assert ends in ([expected], [None])
    freed(disk)
    assert write(begun, 1) is None
