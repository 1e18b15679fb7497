"""A directory that a process has for as long as it lives."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def own_directory(prefix: str, within: Path | None = None) -> Path:
    """A new directory in ``within`` (where temporary files are), gone with this process. What processes left
    there that were killed is removed: a directory is locked while its owner lives."""
    place = within or Path(tempfile.gettempdir())
    for left in place.glob(f"{prefix}*"):
        _remove_if_left(left)
    new = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=place))
    fcntl.flock(os.open(new, os.O_RDONLY), fcntl.LOCK_EX)  # held by the descriptor, which stays open
    own = new.rename(place / new.name[1:])
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _remove_if_left(directory: Path) -> None:
    try:
        fd = os.open(directory, os.O_RDONLY)
    except OSError:
        return  # its owner was quicker
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        pass  # its owner lives
    finally:
        os.close(fd)
