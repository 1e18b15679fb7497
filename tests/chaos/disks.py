"""A small disk that can be full: a tmpfs, where this process may mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

COMMAND_S = 30
ATTEMPTS = 20
PAUSE_S = 0.25
WRITTEN_BYTES = 1 << 20  # by others, between the look at what lies there and the bound


class Disk:
    """``fill`` leaves no room on it, ``free`` gives it back. ``mount`` is False where none can be mounted:
    then the directory lies on the disk of its parent, which is never filled.

    It is full by being made as small as what lies on it: nothing is written, however large it is.
    """

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self.directory = directory
        self._size_bytes = size_bytes
        self.mounted = False
        self.is_full = False

    def mount(self) -> bool:
        """Whether there is such a disk now."""
        self.directory.mkdir(parents=True)
        self.mounted = self._mount(f"size={self._size_bytes}")
        return self.mounted

    def fill(self) -> None:
        """No room is left for one page; where somebody writes meanwhile, soon. Raises TimeoutError."""
        assert self.mounted
        for attempt in range(ATTEMPTS):
            if self._mount(f"remount,size={self._used_bytes() + attempt * WRITTEN_BYTES}"):
                self.is_full = True
                return
        raise TimeoutError(f"{self.directory} grows while it is to be full")

    def free(self) -> None:
        """There is room again."""
        self.is_full = not self._mount(f"remount,size={self._size_bytes}")
        assert not self.is_full

    def unmount(self) -> None:
        """Let go of it, once nobody uses it."""
        for _ in range(ATTEMPTS if self.mounted else 0):
            with contextlib.suppress(subprocess.CalledProcessError):
                command = ["umount", str(self.directory)]
                subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_S)
                self.mounted = False
                return
            time.sleep(PAUSE_S)

    def _used_bytes(self) -> int:
        told = os.statvfs(self.directory)
        return max(1, told.f_blocks - told.f_bfree) * told.f_frsize  # a size of 0 would be no bound

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.directory)]
        return subprocess.run(command, capture_output=True, timeout=COMMAND_S).returncode == 0
