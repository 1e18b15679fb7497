"""One partition of a distributed replay, as the worker that owns it now sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from gpuledger.bus import Incoming
from gpuledger.contract.topics import TELEMETRY
from gpuledger.replay.computing import Computation
from gpuledger.replay.replay_topics import End, original
from gpuledger.replay.request import Request, Source
from gpuledger.replay.state import Position
from gpuledger.replay.topic_keeper import Kept, TopicKeeper


class Share:
    """Owned by one thread. Closes the keeper; the source stays the caller's. Raises Unavailable, Fenced."""

    def __init__(
        self, request: Request, partition: int, source: Source, keeper: TopicKeeper, kept: Kept | None
    ) -> None:
        self._keeper = keeper
        self._computation = Computation(request, partition, source, keeper)
        if kept is None:
            begun = self._computation.beginning(whole=True)
            position = Position(begun.first, source.log.bounds(TELEMETRY, partition)[1])
            keeper.begin(begun, position)
            kept = position, list(begun.progress), []
        self._done = kept[0].done
        self._computation.take_over(*kept)
        self._copies: deque[tuple[int, int]] = deque()  # (offset in the log, offset of its copy), unfinished
        self._next: int | None = None  # offset of the copy that comes next
        self._offered: int | None = None
        self._end: End | None = None
        self._passed = 0  # of the two passes at the end

    def take(self, copies: Sequence[Incoming]) -> None:
        """The next copies, in order. Raises BadRecord for a record that is none."""
        messages = []
        for copy in copies:
            found = original(copy)
            self._next = copy.offset + 1
            if isinstance(found, End):
                self._end = found
            else:
                messages.append(found)
                self._copies.append((found.offset, copy.offset))
        if not self._done:
            self._computation.take(messages)

    def step(self) -> bool:
        """One round of what is due; whether there may be more."""
        if self._done:
            return False
        if self._computation.round():
            return True
        if self._end is None:
            return False
        match self._passed:
            case 0:
                self._computation.pass_range()
            case 1:
                self._computation.pass_log(self._end.last_append_ns)
            case _:
                end = self._end.offset
                done = replace(self._computation.position, offset=end, end=end, done=True)
                self._keeper.save((), (), done, ())
                self._done = True
        self._passed += 1
        return not self._done

    def acknowledgeable(self) -> int | None:
        """The offset of copies to commit: every lower one is finished. None where nothing is new."""
        held = None if self._done else self._computation.oldest_held
        while self._copies and (held is None or self._copies[0][0] < held):
            self._copies.popleft()
        offset = self._copies[0][1] if self._copies else self._next
        if self._end is not None and not self._done and not self._copies and offset is not None:
            offset -= 1  # the mark comes again until all behind it is done
        if offset is None or offset == self._offered:
            return None
        self._offered = offset
        return offset

    def close(self) -> None:
        """Let go of the partition."""
        self._keeper.close()
