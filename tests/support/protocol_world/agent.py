"""An agent with its clock, its queue and its ways to fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.processor.protocol import LogRecord
from tests.support.protocol_world.scale import WINDOW, WINDOWS, ns


class Shared(NamedTuple):
    """What agents share with their world."""

    random: Random
    number: Callable[[], int]  # a fresh one at each call
    bad: float  # part of the records that can not be read
    largest: int  # bytes of a record, at most
    mid_windows: set[tuple[NodeKey, int, int]]  # (node, epoch, window) that an epoch began within
    layouts: int | None = None  # how many there are; None: each is new


class Agent:
    """One node's agent: sends its windows in order, one queue, epochs that begin with its starts."""

    def __init__(self, node: NodeKey, shared: Shared) -> None:
        self.node = node
        self.queue: list[LogRecord] = []
        self.sent = 0  # of the queue, not yet confirmed
        self.online = True
        self.dead = False  # the node is gone
        self.over = False  # the agent said goodbye, or the node is gone
        self.alive = False
        self.waiting = False  # started, has not sent its first record
        self.died_at: int | None = None  # ticks
        self.offset = 0
        self.layout = 0
        self._shared = shared
        self._last_window = 0
        self._parts: dict[int, int] = {}
        self._epoch = 0
        self._sequence = 0
        self._first_window = -1
        self._mid = False
        self._not_before = -1

    def start(self, offset: int) -> None:
        """A new epoch, its clock ``offset`` ticks wrong."""
        self._epoch = 1000 + self._shared.number()
        self.offset, self._sequence, self._parts, self.sent = offset, 0, {}, 0
        self.alive = self.waiting = True
        self._not_before = max((window_of(r) for r in self.queue if not r.amendment), default=-1)

    def tick(self, now: int) -> None:
        """A second passes."""
        if not self.alive or self.dead:
            return
        local = now + self.offset
        window = local // WINDOW
        if self.waiting:
            self._begin(now, local, window)
        elif local % WINDOW == 0:
            if now >= WINDOWS * WINDOW and local >= WINDOWS * WINDOW:
                self._emit(window - 1, last=True, goodbye=True)
                self.end(now)
                return
            self._emit(window - 1, last=True)
            if self._shared.random.random() < 0.3:
                self.layout += 1
                if self._shared.layouts is not None:
                    self.layout %= self._shared.layouts
            self._emit(window, keyframe=True)
        elif self._shared.random.random() < 0.5:
            self._emit(window)

    def say_goodbye(self, now: int) -> None:
        """The node ends in an orderly way."""
        if self.alive and not self.dead and not self.waiting:
            self._emit((now + self.offset) // WINDOW, last=True, goodbye=True)
            self.end(now)

    def end(self, now: int) -> None:
        """The node is gone; what was sent to the queue may still arrive."""
        self.alive, self.over = False, True
        if self.died_at is None:
            self.died_at = now

    def amend(self, now: int) -> None:
        """A name became known that belongs to a window already ended."""
        local = (now + self.offset) // WINDOW
        windows = [w for w in range(max(0, local)) if w < WINDOWS]
        if self.alive and not self.dead and not self.waiting and windows:
            self._emit(self._shared.random.choice(windows[-3:]), amendment=True)

    def flood(self, now: int) -> None:
        """More parts than any window should have."""
        if self.alive and not self.dead and not self.waiting:
            for _ in range(self._shared.random.randint(2, 9)):
                self._emit((now + self.offset) // WINDOW)

    def crash(self) -> None:
        """The agent dies; its spool survives, or the end of it is lost."""
        self.alive = False
        keep = len(self.queue)
        if self._shared.random.random() >= 0.6:
            keep = self._shared.random.randint(0, keep)
        self.queue = self.queue[:keep]
        self.sent = min(self.sent, keep)

    def lose_spool(self) -> None:
        """The disk is gone."""
        self.queue, self.sent = [], 0

    def next_to_send(self) -> LogRecord | None:
        """The record to hand to the broker now."""
        if self.dead or not self.online or self.sent >= len(self.queue):
            return None
        self.sent += 1
        return self.queue[self.sent - 1]

    def confirm(self) -> None:
        """The broker's confirmation of the oldest record arrived."""
        if self.sent:
            self.queue.pop(0)
            self.sent -= 1

    def _begin(self, now: int, local: int, window: int) -> None:
        too_far = window < max(0, self._not_before) or local < 0 or window >= WINDOWS + 4
        if too_far or now >= WINDOWS * WINDOW:
            return
        self._first_window, self._mid = window, local % WINDOW != 0
        if self._mid:
            self._shared.mid_windows.add((self.node, self._epoch, window))
        self.waiting = False
        self._emit(window, keyframe=True)

    def _emit(
        self,
        window: int,
        *,
        keyframe: bool = False,
        last: bool = False,
        goodbye: bool = False,
        amendment: bool = False,
    ) -> None:
        part = 0
        if not amendment:
            begins_late = self._mid and window == self._first_window
            part = self._parts.setdefault(window, int(begins_late))
            self._parts[window] = part + 1
            self._last_window = window
        self.queue.append(
            LogRecord(
                offset=-1,
                append_ns=-1,
                identity=RecordId(*self.node, "boot", self._epoch, self._sequence),
                window_start_ns=ns(window * WINDOW),
                part=part,
                last=last,
                goodbye=goodbye,
                amendment=amendment,
                readable=self._shared.random.random() >= self._shared.bad,
                keyframe=keyframe,
                layout=self.layout if keyframe else None,
                size_bytes=self._shared.random.randint(1, self._shared.largest),
            )
        )
        self._sequence += 1


def window_of(record: LogRecord) -> int:
    """The window's number."""
    return record.window_start_ns // ns(WINDOW)
