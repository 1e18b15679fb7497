"""A small disk that can be full: a tmpfs, where this process may mount one."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import time
from pathlib import Path

PIECE_BYTES = 1 << 20
SMALL_BYTES = 4096
COMMAND_S = 30
UMOUNT_ATTEMPTS = 20


class Disk:
    """``fill`` leaves no room on it, ``free`` gives it back. ``mount`` is False where none can be mounted:
    then the directory lies on the disk of its parent, which is never filled."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self.directory = directory
        self._size_bytes = size_bytes
        self.mounted = False

    def mount(self) -> bool:
        """Whether there is such a disk now."""
        self.directory.mkdir(parents=True)
        options = ["-o", f"size={self._size_bytes}", "tmpfs", str(self.directory)]
        done = subprocess.run(["mount", "-t", "tmpfs", *options], capture_output=True, timeout=COMMAND_S)
        self.mounted = done.returncode == 0
        return self.mounted

    def fill(self) -> None:
        """Write until there is no room left for one page."""
        assert self.mounted
        for number, piece in enumerate((PIECE_BYTES, SMALL_BYTES)):
            with (self.directory / f"ballast-{number}").open("wb", buffering=0) as ballast:
                while True:
                    try:
                        ballast.write(bytes(piece))
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break

    def free(self) -> None:
        """There is room again."""
        for ballast in self.directory.glob("ballast-*"):
            ballast.unlink()

    def unmount(self) -> None:
        """Let go of it, once nobody uses it."""
        for _ in range(UMOUNT_ATTEMPTS if self.mounted else 0):
            with contextlib.suppress(subprocess.CalledProcessError):
                command = ["umount", str(self.directory)]
                subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_S)
                self.mounted = False
                return
            time.sleep(0.25)
