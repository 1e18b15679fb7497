"""Cgroup ids of eBPF events to paths, without a walk through the tree.

``bpf_get_current_cgroup_id()`` is the id of the cgroup v2 directory's kernfs node, and so a file handle of
type FILEID_KERNFS (include/linux/exportfs.h). Ids are never used again, so what was once resolved stays true
after the cgroup is gone; the path of one that went before anybody asked is what the kernel told when it went.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gpuledger.contract.errors import Unsupported

_FILEID_KERNFS: Final = 0xFE
CACHED_PATHS: Final = 4096  # of processes that use a GPU, a day's on a busy node; a path takes some 500 bytes
GONE_PATHS: Final = 1024  # that were told of and not asked for yet
_TRIES: Final = 3  # a directory is gone some microseconds before the kernel tells of it
_PAUSE_S: Final = 0.001

Gone = Callable[[], Iterable[tuple[int, str]]]

_libc = ctypes.CDLL(None, use_errno=True)


def cgroup2_mount(mountinfo: Iterable[str]) -> str | None:
    """Where the cgroup v2 hierarchy is mounted, from the lines of /proc/self/mountinfo (proc(5)).

    The mount of the hierarchy's root where there are several; None where there is none.
    """
    mounts: list[tuple[bool, str]] = []
    for line in mountinfo:
        left, _, right = line.partition(" - ")
        if right.split(" ", 1)[0] == "cgroup2":
            values = left.split(" ")
            mounts.append((values[3] != "/", _unescape(values[4])))
    return min(mounts)[1] if mounts else None


def _unescape(text: str) -> str:
    """mountinfo writes space, tab, newline and backslash as three octal digits."""
    for code in (0o40, 0o11, 0o12, 0o134):
        text = text.replace(f"\\{code:03o}", chr(code))
    return text


def process_cgroup_path(cgroup: str) -> str | None:
    """The cgroup v2 path of a process from its /proc/PID/cgroup, None where it has none."""
    for line in cgroup.splitlines():
        if line.startswith("0::"):
            return line[3:].removesuffix(" (deleted)")
    return None


def _outermost(fd: int) -> str:
    """The path of a directory, or of the nearest one above it whose path is not too long: whoever owns a
    cgroup may nest others below it deeper than a path reaches, and the outermost part says whose they are."""
    above = os.dup(fd)
    try:
        while True:
            try:
                return str(Path(f"/proc/self/fd/{above}").readlink())
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
            below, above = above, os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
            os.close(below)
    finally:
        os.close(above)


def _written(path: str) -> str:
    """The path as text that every record can hold: names of cgroups may be any bytes."""
    return os.fsencode(path).decode("utf-8", "replace")


def process_cgroup1_paths(cgroup: str) -> tuple[str, ...]:
    """The paths of a process in hierarchies of cgroup v1 from its /proc/PID/cgroup, each once: first that of
    the devices, which schedulers bound. Named ones have no controller, and systemd gives its own to users."""
    found = {}
    for line in cgroup.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and not controllers.startswith("name="):
            found[controllers] = path.removesuffix(" (deleted)")
    return tuple(dict.fromkeys(found[names] for names in sorted(found, key=lambda names: names != "devices")))


class CgroupPaths:
    """Resolves cgroup ids; holds one descriptor of the mount. Not thread-safe.

    ``gone`` tells (id, path) of the cgroups that were removed since it was last asked; it is asked when an id
    has no directory. Raises Unsupported where no cgroup v2 hierarchy is mounted.
    """

    def __init__(self, mount: str | None = None, gone: Gone | None = None) -> None:
        if mount is None:
            mount = cgroup2_mount(Path("/proc/self/mountinfo").read_text().splitlines())
        if mount is None:
            raise Unsupported("no cgroup v2 hierarchy is mounted")
        self.mount: Final = mount
        self._fd = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._known: OrderedDict[int, str] = OrderedDict()
        self._gone = gone
        self._gone_paths: OrderedDict[int, str] = OrderedDict()

    def cgroup_path(self, cgroup_id: int) -> str | None:
        """The path below the mount (``/`` for its root), None where the cgroup is gone and nobody told of it.

        Raises PermissionError without CAP_DAC_READ_SEARCH.
        """
        known = self._known.get(cgroup_id)
        if known is not None:
            self._known.move_to_end(cgroup_id)
            return known
        path = self._resolve(cgroup_id) or self._of_gone(cgroup_id)
        if path is not None:
            self._known[cgroup_id] = path
            if len(self._known) > CACHED_PATHS:
                self._known.popitem(last=False)
        return path

    def _of_gone(self, cgroup_id: int) -> str | None:
        if self._gone is None:
            return None
        for _ in range(_TRIES):
            self._gone_paths.update((gone, _written(path)) for gone, path in self._gone())
            while len(self._gone_paths) > GONE_PATHS:
                self._gone_paths.popitem(last=False)
            if cgroup_id in self._gone_paths:
                return self._gone_paths.pop(cgroup_id)
            time.sleep(_PAUSE_S)
        return None

    def _resolve(self, cgroup_id: int) -> str | None:
        handle = ctypes.create_string_buffer(struct.pack("=IiQ", 8, _FILEID_KERNFS, cgroup_id), 16)
        fd = _libc.open_by_handle_at(self._fd, handle, os.O_RDONLY | os.O_CLOEXEC)
        if fd < 0:
            code = ctypes.get_errno()
            if code in (errno.ESTALE, errno.ENOENT):
                return None
            raise OSError(code, os.strerror(code), f"cgroup id {cgroup_id}")
        try:
            # of one that is just being removed the path is still whole, and a live one may be called so
            target = _written(_outermost(fd)).removesuffix(" (deleted)")
        finally:
            os.close(fd)
        return target.removeprefix(self.mount.rstrip("/")) or "/"

    def cgroup_id_of_process(self, pid: int) -> int | None:
        """The cgroup id that eBPF would report for ``pid`` now, None where it is gone."""
        try:
            path = process_cgroup_path(Path(f"/proc/{pid}/cgroup").read_text())
            return None if path is None else Path(self.mount + path).stat().st_ino
        except (FileNotFoundError, ProcessLookupError):
            return None

    def close(self) -> None:
        """Closes the descriptor. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
