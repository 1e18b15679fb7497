"""Calls that may never return: made on a thread of their own, one at a time, and awaited for a while."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """What a call will have returned or raised, once it has."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._done = threading.Event()
        self._value: list[T] = []
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call."""
        try:
            self._value.append(self._call())
        except BaseException as error:
            self._error = error
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Whether it is there, within that time."""
        return self._done.wait(timeout_s)

    @property
    def result(self) -> T:
        """What the call returned; raises what it raised. Only once it is there."""
        if self._error is not None:
            raise self._error
        return self._value[0]


class Asking:
    """A thread that makes calls in the order in which they were begun. Where one never returns none of those
    behind it is made; the end of the process waits for none."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Answer[Any]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def begin(self, call: Callable[[], T]) -> Answer[T]:
        """Have a call made; its answer."""
        answer = Answer(call)
        self._calls.put(answer)
        return answer

    def _run(self) -> None:
        while True:
            self._calls.get().make()
