"""Finds the files of the CUDA driver library that running processes have mapped.

One library file may be seen under many paths (every container mounts it): (st_dev, st_ino) of the real file
tells them apart. A process may load the library long after its start, so a process is looked at again
whenever the size of its address space has changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIBRARY: Final = re.compile(rb"/libcuda\.so[^/]*$")
_DELETED: Final = b" (deleted)"

REPEAT_SCANS: Final = 30
"""A process that has the library is looked at again each so many scans only: its address space changes all
the time, and only a copy-up of an overlay would give it another file."""


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """One library file and a path by which it can be opened for now."""

    device: int
    inode: int
    path: str

    @property
    def key(self) -> tuple[int, int]:
        """What names the file, whatever its path."""
        return self.device, self.inode


@dataclass(frozen=True, slots=True)
class Mapping:
    """A process that has a library file mapped."""

    pid: int
    file: LibraryFile


def library_ranges(maps: bytes) -> Iterator[tuple[str, str]]:
    """(address range as map_files names it, path inside the process) of each libcuda in /proc/PID/maps."""
    seen: set[bytes] = set()
    for line in maps.splitlines():
        if b"libcuda.so" not in line:
            continue
        parts = line.split(None, 5)
        if len(parts) < 6:
            continue
        name = parts[5].removesuffix(_DELETED)
        identity = parts[3] + b":" + parts[4]
        if LIBRARY.search(name) and identity not in seen:
            seen.add(identity)
            yield range_name(parts[0].decode()), os.fsdecode(name)


def range_name(address_range: str) -> str:
    """maps pads addresses to 8 digits, map_files does not pad."""
    first, last = address_range.split("-")
    return f"{int(first, 16):x}-{int(last, 16):x}"


def library_file(path: str | Path) -> LibraryFile:
    """Raises OSError where the path can not be followed."""
    status = Path(path).stat()
    return LibraryFile(status.st_dev, status.st_ino, str(path))


def _read_small(path: str) -> bytes:
    """A file of /proc that fits in one read: half the cost of Path.read_bytes, for every process."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


class LibraryScanner:
    """Remembers what it has looked at, so that a scan of a quiet machine reads one line a process.

    ``root`` is /proc. Not thread-safe.
    """

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        self._states: dict[int, tuple[bytes, bytes, int]] = {}
        self._files: dict[int, frozenset[tuple[int, int]]] = {}
        self._scans = 0

    def scan(self) -> list[Mapping]:
        """Every (process, library file) that is new or may have changed since the last scan."""
        self._scans += 1
        present: set[int] = set()
        found: list[Mapping] = []
        with os.scandir(self._root) as entries:
            pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
        for pid in pids:
            state = self._state(pid)
            if state is None:
                continue
            present.add(pid)
            known = self._states.get(pid)
            if known is not None and known[:2] == state:
                continue
            same_process = known is not None and known[0] == state[0]
            if same_process and known is not None and known[2] > self._scans:
                continue
            mappings = self._mappings(pid)
            again = self._scans + REPEAT_SCANS if mappings else 0
            self._states[pid] = (*state, again)
            self._files[pid] = frozenset(mapping.file.key for mapping in mappings)
            found += mappings
        for gone in self._states.keys() - present:
            del self._states[gone]
            del self._files[gone]
        return found

    def files_in_use(self) -> set[tuple[int, int]]:
        """The keys of all library files that some process had when it was last looked at."""
        return set().union(*self._files.values())

    def _state(self, pid: int) -> tuple[bytes, bytes] | None:
        """(start time, size of the address space); None for kernel threads and processes that are gone."""
        try:
            text = _read_small(f"{self._root}/{pid}/stat")
        except OSError:
            return None
        values = text[text.rindex(b")") + 2 :].split(None, 21)
        start, size = values[19], values[20]
        return None if size == b"0" else (start, size)

    def _mappings(self, pid: int) -> list[Mapping]:
        base = Path(self._root, str(pid))
        try:
            maps = Path(base, "maps").read_bytes()
        except OSError:
            return []
        out = []
        for address_range, inside in library_ranges(maps):
            for path in (f"{base}/map_files/{address_range}", f"{base}/root{inside}"):
                try:
                    out.append(Mapping(pid, library_file(path)))
                    break
                except OSError:
                    continue
        return out
