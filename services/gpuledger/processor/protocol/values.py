"""What goes into the protocol's decisions and what comes out: plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.revision import Revision
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS, NS_PER_S

Layout = Any  # the devices of a node as its keyframe states them; opaque to the protocol


class LogRecord(NamedTuple):
    """One record of gpu.telemetry as the protocol sees it: its place and its headers, never its body.

    ``readable``, ``keyframe`` and ``layout`` are known only once the body was decoded; until then a
    record counts as readable and states no layout.
    """

    offset: int
    append_ns: int  # broker time of arrival (LogAppendTime), Unix ns
    identity: RecordId
    window_start_ns: int
    part: int
    last: bool = False  # the agent's last part of that window
    goodbye: bool = False  # the agent says that the node ends; only on a last part
    amendment: bool = False  # a name that became known; neither a part nor an epoch
    mend: int = 0  # 0: as the agent sent it; n: the n-th mended copy of a refused record
    readable: bool = True
    keyframe: bool = False
    layout: Layout | None = None
    size_bytes: int = 0  # of the body as it lies in Kafka


class Lifetime(NamedTuple):
    """One life of a node, [launched, ended), as gpu.nodes states it of one instance (Unix ns)."""

    launched_ns: int | None  # None: not known; the life then begins with the node's first record
    ended_ns: int | None = None
    told_ns: int | None = None  # broker time at which the end was told; None while it is not
    instance: str = ""


class Announcement(NamedTuple):
    """A generation: windows of ``clusters`` that start in [start, end) are computed with it."""

    number: int
    start_ns: int
    end_ns: int
    clusters: frozenset[str] = frozenset()  # empty: every cluster


class Statement(NamedTuple):
    """What the readable records of one window say about the windows behind it."""

    layout: Layout | None  # of the readable keyframe with the lowest offset
    keyframe_offset: int = -1  # -1: the window has none
    goodbye: bool = False
    goodbye_append_ns: int | None = None

    @property
    def has_keyframe(self) -> bool:
        """Whether it states what the node consists of."""
        return self.keyframe_offset >= 0

    def says_same(self, other: Statement) -> bool:
        """Whether windows that speak from the one are charged as those that speak from the other."""
        return self.layout == other.layout and self.goodbye == other.goodbye


@dataclass(frozen=True, slots=True)
class WindowRow:
    """What gpu.progress holds of one closed window."""

    generation: int
    inputs: int  # distinct records; 0: an empty window
    lowest: int = -1  # offsets of the inputs, repeats included; -1 where there are none
    highest: int = -1
    statement: Statement | None = None
    alive_ns: int = -1  # ns of the window inside the stated life it was charged with; -1: no life stated
    input_bytes: int = 0  # of its distinct inputs as they lie in Kafka; 0: not known


class WindowTask(NamedTuple):
    """One window to compute now.

    ``held`` are the offsets of the records that the owner holds; ``fetch`` is the offset range [lowest,
    highest] that must be read again from Kafka first, for a window that had been closed.
    """

    node: NodeKey
    window_start_ns: int
    held: tuple[int, ...] = ()
    fetch: tuple[int, int] | None = None


class Reading(Enum):
    """What became of a record that was read. All but HELD are finished at once."""

    HELD = "held"
    REPEATED = "repeated"  # was read before, or a copy of it is held; nothing to do
    AHEAD_OF_TIME = "ahead_of_time"  # to dead letters
    TOO_OLD = "too_old"  # to dead letters
    WRONG_GRID = "wrong_grid"  # to dead letters
    WINDOW_FULL = "window_full"  # to dead letters


class Skipped(NamedTuple):
    """Windows of a node's life that are never charged: too old when they became known."""

    node: NodeKey
    start_ns: int
    end_ns: int
    windows: int


class Label(IntEnum):
    """What is known of a window."""

    COMPLETE = 0  # parts 0..last of one epoch, all readable
    INCOMPLETE = 1  # two epochs, a gap, no last part
    REFUSED = 2  # a record that can not be read: the cost is unobserved, reason refused
    UNOBSERVED = 3  # no record at all in a window of the node's life
    ENDED = 4  # after the node's end: an empty set


@dataclass(frozen=True, slots=True)
class Decision:
    """One window, decided: all that its charges may depend on, and their rank."""

    node: NodeKey
    window_start_ns: int
    label: Label
    revision: Revision
    alive: tuple[tuple[int, int], ...]  # the parts of the window that the node lived in (Unix ns)
    inputs: tuple[LogRecord, ...] = ()  # distinct, by offset
    layout: Layout | None = None  # what it is charged for: of its own keyframe, else the nearest earlier one


@dataclass(frozen=True, slots=True)
class Batch:
    """The decisions of one round on one partition, and what becomes true once they are written."""

    decisions: tuple[Decision, ...]
    rows: dict[tuple[NodeKey, int], WindowRow]
    finished: tuple[int, ...]  # offsets that are finished once charges and progress are written
    refused: tuple[LogRecord, ...]  # to dead letters before the offsets are finished
    expired: tuple[LogRecord, ...] = ()  # late ones whose window can not be computed from Kafka any more
    beyond: tuple[LogRecord, ...] = ()  # those that a full window has no place for, to dead letters too


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """What a new owner learns from gpu.progress about one node."""

    node: NodeKey
    rows: dict[int, WindowRow]
    through_ns: int  # start of the last window closed in order
    last_append_ns: int | None = None  # of the latest record read
    opened_from_ns: int | None = None  # windows before it are opened no more; None: none is given up
    keys: frozenset[int] = frozenset()  # starts of the records of gpu.progress that hold the rows
    since_ns: int | None = None  # nothing that is older is there yet; None: all is


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol's constants."""

    silence_ns: int = 60 * NS_PER_S  # a node that sends every window is 60 s late only if something is wrong
    ahead_ns: int = 60 * NS_PER_S  # an agent's clock is at most 1 s wrong, a minute is no clock of this world
    # A spool keeps a week at most; older comes from a clock that was never set. It is also how far back a
    # window that was never charged is opened, and how long gpu.progress keeps a row.
    oldest_ns: int = 8 * DAY_NS
    longest_window_ns: int = MINUTE_NS
    given_up_ns: int = HOUR_NS  # what is too old is given up in such steps: gpu.progress holds whole hours
    unstated_life_ns: int = DAY_NS  # of a node that says nothing more and whose life nobody states
    window_records: int = 10_000  # a busy node sends some ten; far below the revision's 20 bits
    window_bytes: int = 64 << 20  # eighty times a busy node's; decoded it is some times as much

    def open_from(self, now_ns: int) -> int:
        """The oldest window that is opened without a record; none that a record may still reach is older."""
        oldest = now_ns - self.oldest_ns - self.longest_window_ns
        return oldest - oldest % self.given_up_ns


def offsets(records: Sequence[LogRecord]) -> tuple[int, ...]:
    """Their offsets, in the order given."""
    return tuple(record.offset for record in records)
