"""One agent a node: whoever holds the lock of the state directory is it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuledger.contract.errors import Refused


class NodeLock:
    """An exclusive flock, held until `close` or the end of the process, however that comes."""

    def __init__(self, directory: Path) -> None:
        """Raises Refused where another process holds it."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "agent.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise Refused(
                f"{path} is held: another agent of this node runs; one node has one agent"
            ) from error

    def close(self) -> None:
        """Let another agent start. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
