"""The real source of facts about processes: /proc, cgroup ids, and a pidfd for each process's end.

What lies behind a process's own paths is its own: a file system in user space may answer with any error.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from pathlib import Path
from typing import Final

from gpuledger.agent.cgroups import CgroupPaths, process_cgroup1_paths
from gpuledger.agent.ordinals import ENVIRONMENT_NAMES
from gpuledger.agent.probes.libraries import library_ranges
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.procfs import process_start_ns, tick_ns

_NVIDIA_MAJOR = 195  # Documentation/admin-guide/devices.txt; minors 254 and 255 are no GPUs
_FIRST_OTHER_MINOR = 248
MAX_ENVIRONMENT_BYTES = 1 << 20  # Linux allows a quarter of the stack, 2 MiB, for arguments and environment
_NODE: Final = re.compile("nvidia([0-9]{1,4})")


class ProcReader:
    """A `ProcessReader` over this machine's /proc."""

    def __init__(self, cgroups: CgroupPaths | None = None, root: Path = Path("/proc")) -> None:
        self.tick_ns = tick_ns()
        self._cgroups = cgroups or CgroupPaths()
        self._root = root
        self._poll = select.poll()
        self._pid_of_fd: dict[int, int] = {}
        self._fd_of_pid: dict[int, int] = {}

    def look(self, pid: int) -> ProcessFacts | None:
        """See ProcessReader.look."""
        start_ns = process_start_ns(pid, self._root)
        if start_ns is None:
            return None
        return ProcessFacts(
            start_ns=start_ns,
            cgroup_id=self._cgroups.cgroup_id_of_process(pid) or 0,
            name=self._name(pid),
            environment=self._environment(pid),
            minors=self._minors(pid),
            opened=self._opened(pid),
            program=self._program(pid),
            cgroup1_paths=self._cgroup1_paths(pid),
        )

    def cgroup_path(self, cgroup_id: int) -> str | None:
        """See ProcessReader.cgroup_path."""
        return self._cgroups.cgroup_path(cgroup_id) if cgroup_id else None

    def watch(self, pid: int) -> None:
        """See ProcessReader.watch."""
        if pid in self._fd_of_pid:
            return
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            fd = -1 - pid  # gone already: the next call of `ended` tells
        self._fd_of_pid[pid] = fd
        self._pid_of_fd[fd] = pid
        if fd >= 0:
            self._poll.register(fd, select.POLLIN)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        """See ProcessReader.libraries."""
        found = set()
        directory = self._root / str(pid)
        with contextlib.suppress(OSError):
            for range_, _ in library_ranges((directory / "maps").read_bytes()):
                status = (directory / "map_files" / range_).stat()
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)

    def ended(self) -> list[int]:
        """See ProcessReader.ended."""
        fds = [fd for fd, _ in self._poll.poll(0)] + [fd for fd in self._pid_of_fd if fd < 0]
        pids = []
        for fd in fds:
            pid = self._pid_of_fd.pop(fd)
            del self._fd_of_pid[pid]
            if fd >= 0:
                self._poll.unregister(fd)
                os.close(fd)
            pids.append(pid)
        return pids

    def close(self) -> None:
        """See ProcessReader.close."""
        for fd in self._pid_of_fd:
            if fd >= 0:
                os.close(fd)
        self._pid_of_fd.clear()
        self._fd_of_pid.clear()
        self._poll = select.poll()
        self._cgroups.close()

    def _name(self, pid: int) -> str:
        try:
            return (self._root / str(pid) / "comm").read_bytes().decode("utf-8", "replace").rstrip("\n")
        except OSError:
            return ""

    def _cgroup1_paths(self, pid: int) -> tuple[str, ...]:
        try:
            text = (self._root / str(pid) / "cgroup").read_bytes().decode("utf-8", "replace")
        except OSError:
            return ()
        return process_cgroup1_paths(text)

    def _program(self, pid: int) -> str:
        try:
            path = (self._root / str(pid) / "exe").readlink()
        except OSError:
            return ""
        return path.name.removesuffix(" (deleted)")

    def _environment(self, pid: int) -> dict[str, str]:
        try:
            with (self._root / str(pid) / "environ").open("rb") as file:
                data = file.read(MAX_ENVIRONMENT_BYTES)
        except OSError:
            return {}
        found = {}
        for entry in data.split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals and name in ENVIRONMENT_NAMES:
                found[name.decode()] = value.decode("utf-8", "replace")
        return found

    def _minors(self, pid: int) -> frozenset[int]:
        found = set()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._root / str(pid) / "root" / "dev"):
                node = _NODE.fullmatch(entry.name)
                if node is not None:
                    found.add(int(node[1]))
        return frozenset(found)

    def _opened(self, pid: int) -> frozenset[int]:
        """By the node's own number: a container may call it as it likes."""
        found = set()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._root / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    device = entry.stat().st_rdev
                    if os.major(device) == _NVIDIA_MAJOR and os.minor(device) < _FIRST_OTHER_MINOR:
                        found.add(os.minor(device))
        return frozenset(found)
