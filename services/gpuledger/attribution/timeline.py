"""Which stretches of a window are known, and the node's state in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.columns import MAX_SUM
from gpuledger.contract.records import EventBatch, Header, Holdings, NodeLayout, SampleBatch

AGENT_GAP = "agent_gap"
REFUSED = "refused"

AnyRecord: TypeAlias = EventBatch | SampleBatch | Holdings
R = TypeVar("R", EventBatch, SampleBatch, Holdings)


class Span(NamedTuple):
    """A stretch in which the node's state does not change. ``gap`` is the reason why nothing is known of
    it, empty where ``state`` holds; ``layout`` is what it is charged for, None where no record says."""

    start_ns: int
    end_ns: int
    state: Holdings | None
    layout: NodeLayout | None
    gap: str = ""


class Timeline(NamedTuple):
    """A window's spans, in order and without holes over the node's life in it."""

    spans: list[Span]
    observed_ns: int
    lost_events: int


class Records(NamedTuple):
    """A window's records without repeats, in the one order that everything is computed in."""

    holdings: list[Holdings]
    events: list[EventBatch]
    samples: list[SampleBatch]

    @property
    def all(self) -> list[AnyRecord]:
        """Every record but the amendments, which only name things."""
        records: list[AnyRecord] = [*self.holdings, *self.events, *self.samples]
        return [record for record in records if not record.header.amendment]


def record_order(header: Header) -> tuple[int, str, int, int, int]:
    """Epochs by the instant at which they began, then sequence: a total order of a node's records."""
    began_ns = header.clock_offset_ns + header.epoch_ns
    return began_ns, header.boot_id, header.epoch_ns, header.sequence, header.mend


def ordered(window: NodeWindow) -> Records:
    """The records in canonical order; of equals one is kept."""

    return Records(_once(window.holdings), _once(window.events), _once(window.samples))


def _once(records: Sequence[R]) -> list[R]:
    unique = {record_order(record.header): record for record in reversed(records)}
    return [unique[key] for key in sorted(unique)]


def timeline(window: NodeWindow, records: Records) -> Timeline:
    """Spans of the window; see ``Span``."""
    start, end = window.life_ns
    states = [record for record in records.holdings if not record.header.amendment]
    lost = lost_events(window, records)
    if window.state == "ended" or start >= end:
        return Timeline([], 0, lost)
    layout = states[0].layout if states else window.layout
    if window.state == "refused" or window.refused:
        return Timeline([Span(start, end, None, layout, REFUSED)], 0, lost)
    if window.state == "unobserved" or not states:
        return Timeline([Span(start, end, None, layout, AGENT_GAP)], 0, lost)
    known = [(start, end)] if window.state == "complete" else observed(window, records)
    spans = list(_spans(window, states, known))
    return Timeline(spans, sum(span.end_ns - span.start_ns for span in spans if not span.gap), lost)


def _spans(
    window: NodeWindow, states: Sequence[Holdings], known: Sequence[tuple[int, int]]
) -> Iterable[Span]:
    """Cut the life at each state and at each border of what is known."""
    start, end = window.life_ns
    since = [max(window.window_start_ns, state_time(window, state)) for state in states]
    order = sorted(range(len(states)), key=lambda i: (since[i], record_order(states[i].header)))
    cuts = sorted(
        {start, end}
        | {at for at in since if start < at < end}
        | {at for pair in known for at in pair if start < at < end}
    )
    at = 0
    for low, high in pairwise(cuts):
        while at < len(order) and since[order[at]] <= low:
            at += 1
        current = states[order[at - 1]] if at else None
        following = states[order[at]] if at < len(order) else None
        covered = any(a <= low and high <= b for a, b in known)
        if covered and current is not None:
            yield Span(low, high, current, current.layout)
        else:
            nearest = current or following
            yield Span(low, high, None, nearest.layout if nearest else window.layout, AGENT_GAP)


def state_time(window: NodeWindow, state: Holdings) -> int:
    """Instant from which a state holds: a keyframe states the window's start, whenever it was taken."""
    return window.window_start_ns if state.keyframe else state.time_ns


def observed(window: NodeWindow, records: Records) -> list[tuple[int, int]]:
    """What the records of an incomplete window speak for.

    An epoch speaks from the window's start where it has the keyframe, else from its first state; to the
    window's end where it has the last part, else to the latest instant in its records. Where a part is
    missing, the time between the latest instant before and the earliest instant after it is not known.
    """
    epochs: dict[tuple[int, str, int], list[AnyRecord]] = {}
    for record in records.all:
        epochs.setdefault(record_order(record.header)[:3], []).append(record)
    found: list[tuple[int, int]] = []
    for key in sorted(epochs):
        found += _observed_of_epoch(window, sorted(epochs[key], key=lambda record: record.header.part))
    return _union(found)


def _observed_of_epoch(window: NodeWindow, parts: Sequence[AnyRecord]) -> list[tuple[int, int]]:
    states = [record for record in parts if isinstance(record, Holdings)]
    if not states:
        return []
    begin = min(max(window.window_start_ns, state_time(window, state)) for state in states)
    extents = [_extent(window, record) for record in parts]
    reach = begin
    pieces = []
    for index, record in enumerate(parts):
        if index and record.header.part > parts[index - 1].header.part + 1:
            resumes = min(extent[0] for extent in extents[index:])
            if resumes > reach:
                pieces.append((begin, reach))
                begin = resumes
        reach = max(reach, extents[index][1])
    pieces.append(
        (begin, window.window_end_ns if parts[-1].header.last else min(reach, window.window_end_ns))
    )
    return [(low, high) for low, high in pieces if low < high]


def _extent(window: NodeWindow, record: AnyRecord) -> tuple[int, int]:
    """Earliest and latest instant that a record speaks of, within the window."""
    if isinstance(record, Holdings):
        at = state_time(window, record)
        return at, at
    times = record.time_ns if isinstance(record, EventBatch) else record.start_ns
    if not len(times):
        return window.window_end_ns, window.window_start_ns
    latest = times.max() if isinstance(record, EventBatch) else (times + record.duration_ns).max()
    return max(int(times.min()), window.window_start_ns), min(int(latest), window.window_end_ns)


def _union(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pieces):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def lost_events(window: NodeWindow, records: Records) -> int:
    """Events lost in the window, at most MAX_SUM: the growth of each epoch's counters within it, all of
    them where the epoch began in it."""
    counts: dict[tuple[int, str, int], list[int]] = {}
    for record in records.all:
        header = record.header
        counts.setdefault(record_order(header)[:3], []).append(header.lost_kernel + header.lost_user)
    total = 0
    for (began_ns, _, _), values in counts.items():
        total += max(values) - (0 if began_ns >= window.window_start_ns else min(values))
    return min(total, MAX_SUM)
