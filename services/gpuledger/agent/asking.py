"""Questions about one process: whatever it says of itself, it must not end the agent for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gpuledger.logs import EventLog

T = TypeVar("T")

_log = EventLog(__name__)


class Asking:
    """Asks, and remembers whose answer could not be made sense of."""

    def __init__(self) -> None:
        self._unread: set[int] = set()

    def __call__(self, pid: int, question: Callable[[], T]) -> T | None:
        """The answer; None where it can not be had, which is said once a process. Raises PermissionError,
        which is the agent's own lack of rights."""
        try:
            return question()
        except PermissionError:
            raise
        except Exception:
            if pid not in self._unread:
                _log.exception("process_not_read", pid=pid)
            self._unread.add(pid)
            return None

    def take_unread(self, pid: int) -> bool:
        """Whether it said what can not be made sense of; it is forgotten with that."""
        unread = pid in self._unread
        self._unread.discard(pid)
        return unread

    def forget(self, pids: Iterable[int]) -> None:
        """These processes have ended."""
        self._unread.difference_update(pids)
