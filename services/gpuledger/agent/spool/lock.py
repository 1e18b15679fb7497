"""One agent a node: whoever holds the locks of the state directory and of the node itself is it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.logs import EventLog

LOCK_DIRECTORY: Final = Path("/run/gpuledger")
"""Where agents with other state directories meet; a container needs the host's."""
_DIGITS: Final = 16

_log = EventLog(__name__)


def node_lock(directory: Path, boot: str, node: NodeKey, brokers: str) -> Path:
    """The lock of a node by what its log is: two agents of one boot under one name, to the same brokers, are
    both the node, wherever each has its state."""
    digest = hashlib.sha256("\0".join((boot, node.cluster, node.node, brokers)).encode()).hexdigest()
    return directory / f"agent-{digest[:_DIGITS]}.lock"


class NodeLock:
    """Exclusive flocks, held until `close` or the end of the process, however that comes."""

    def __init__(self, directory: Path, node: Path | None = None) -> None:
        """``directory``: the agent's state; ``node``: the file of `node_lock`, left out where it can not be
        written. Raises Refused where another process holds one of them."""
        self._fds: list[int] = []
        try:
            self._take(directory / "agent.lock")
            if node is not None:
                self._take_node(node)
        except BaseException:
            self.close()
            raise

    def _take_node(self, path: Path) -> None:
        try:
            self._take(path)
        except OSError as error:
            _log.warning("node_not_locked", path=str(path), error=str(error), locked="the state directory")

    def _take(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"{path} is held: another agent of this node runs; one node has one agent"
            raise Refused(message) from error

    def close(self) -> None:
        """Let another agent start. May be called twice."""
        while self._fds:
            with contextlib.suppress(OSError):
                os.close(self._fds.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
