"""Finds the files of the CUDA driver library that running processes have mapped.

One library file may be seen under many paths (every container mounts it): (st_dev, st_ino) of the real file
tells them apart. A process may load the library long after its start, so a process is looked at again
whenever the size of its address space has changed; that size is asked of a young process at each scan, and
of others seldom, for a node has a thousand that never load it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

LIBRARY_PREFIX: Final = b"/libcuda.so"
LIBRARY: Final = re.compile(re.escape(LIBRARY_PREFIX) + rb"[^/]*$")
_DELETED: Final = b" (deleted)"
_NO_MEMORY: Final = b"0"  # the size of the address space of a thread of the kernel's, or of the dead

REPEAT_SCANS: Final = 30
"""A process that has the library is looked at again each so many scans only: its address space changes all
the time, and only a copy-up of an overlay would give it another file."""

YOUNG_SCANS: Final = 120
"""Scans, two minutes or so, in which a process is new: most load the library by then, if ever."""
OLD_SCANS: Final = 8
"""Of these scans an old process, or a thread of the kernel's, is in one."""


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
        if LIBRARY_PREFIX not in line:
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
    status = os.stat(path)  # noqa: PTH116 - asked for a dozen paths each second
    return LibraryFile(status.st_dev, status.st_ino, str(path))


def _read_small(path: str) -> bytes:
    """A file of /proc that fits in one read: half the cost of Path.read_bytes, for every process."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


class _Looked(NamedTuple):
    """A process when it was last looked at. Scans are counted."""

    start: bytes
    size: bytes
    since: int
    """The scan in which it was seen first."""
    due: int
    """The scan from which on its size is asked again."""
    maps_due: int
    """The scan from which on a change of its size is a reason to look at what it has mapped."""


class LibraryScanner:
    """Remembers what it has looked at, so that a scan of a quiet machine reads one line a young process.

    ``root`` is /proc. Not thread-safe.
    """

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        self._looked: dict[int, _Looked] = {}
        self._files: dict[int, frozenset[tuple[int, int]]] = {}
        self._scans = 0

    def scan(self, everything: bool = False) -> list[Mapping]:
        """Every (process, library file) that is new or may have changed since the last scan; of old processes
        only those whose turn it is, unless ``everything`` is looked at."""
        self._scans += 1
        with os.scandir(self._root) as entries:
            pids = {int(entry.name) for entry in entries if entry.name.isdigit()}
        found: list[Mapping] = []
        for pid in pids:
            known = self._looked.get(pid)
            if known is None or everything or known.due <= self._scans:
                found += self._look(pid, known)
        for gone in self._looked.keys() - pids:
            self._forget(gone)
        return found

    def look(self, pids: Iterable[int]) -> list[Mapping]:
        """Every (process, library file) of these processes, whatever was seen of them before."""
        return [mapping for pid in pids for mapping in self._look(pid, None)]

    def _look(self, pid: int, known: _Looked | None) -> list[Mapping]:
        state = self._state(pid)
        if state is None:
            self._forget(pid)
            return []
        start, size = state
        if known is not None and known.start != start:
            known = None
        if known is None:
            known = _Looked(start, b"", self._scans, 0, 0)
        mappings: list[Mapping] = []
        if size == _NO_MEMORY:
            self._files.pop(pid, None)
        elif size != known.size and known.maps_due <= self._scans:
            mappings = self._mappings(pid)
            self._files.pop(pid, None)
            if mappings:
                self._files[pid] = frozenset(mapping.file.key for mapping in mappings)
            known = known._replace(size=size, maps_due=self._scans + REPEAT_SCANS if mappings else 0)
        self._looked[pid] = known._replace(due=self._due(pid, size, known.since))
        return mappings

    def _due(self, pid: int, size: bytes, since: int) -> int:
        if size != _NO_MEMORY and self._scans - since < YOUNG_SCANS:
            return self._scans + 1
        return self._scans + OLD_SCANS - (self._scans - pid) % OLD_SCANS  # not all in one scan

    def _forget(self, pid: int) -> None:
        self._looked.pop(pid, None)
        self._files.pop(pid, None)

    def files_in_use(self) -> set[tuple[int, int]]:
        """The keys of all library files that a living process had when it was last looked at."""
        for gone in [pid for pid in self._files if not Path(self._root, str(pid)).exists()]:
            self._forget(gone)
        return set().union(*self._files.values())

    def _state(self, pid: int) -> tuple[bytes, bytes] | None:
        """(start time, size of the address space); None for a process that is gone."""
        try:
            text = _read_small(f"{self._root}/{pid}/stat")
        except OSError:
            return None
        values = text[text.rindex(b")") + 2 :].split(None, 21)
        return values[19], values[20]

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
