"""How far back a version of the budgets counts what it brings: from the beginning of the period under way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from gpuledger.budgets.periods import MAX_BUCKETS, bucket_length_ns
from gpuledger.budgets.rings import RING_BUCKETS
from gpuledger.contract.windows import DAY_NS, HOUR_NS

if TYPE_CHECKING:
    from gpuledger.budgets.catalog import Meter, Plan

TOTAL = 0  # in place of the length of buckets: the total of a period
COURSE_BUCKETS = 100  # of the time before a budget was there, in which it is said when a line was crossed


class Reach(NamedTuple):
    """A meter's total (length 0), or its buckets of a length, and the windows before the version that brings
    them which count for them all the same: those that start in [from, until)."""

    key: str
    length_ns: int
    from_ns: int
    until_ns: int

    @property
    def course_ns(self) -> int:
        """Length of the buckets in which it is known when what lay before was spent."""
        return max(HOUR_NS, bucket_length_ns((self.until_ns - self.from_ns) * MAX_BUCKETS // COURSE_BUCKETS))


class Reached:
    """Reaches by the windows that they have."""

    def __init__(self, reaches: Iterable[Reach] = ()) -> None:
        self.all = tuple(reaches)
        self.cuts = sorted({at for one in self.all for at in (one.from_ns, one.until_ns)})
        self._found: dict[int, dict[str, tuple[Reach, ...]]] = {}

    @cached_property
    def mark(self) -> str:
        """The same for the same reaches alone."""
        return f"{crc32(repr(sorted(map(tuple, self.all))).encode()):08x}"

    def at(self, start_ns: int) -> Mapping[str, tuple[Reach, ...]]:
        """The reaches that have a window which starts then, by meter."""
        place = bisect_right(self.cuts, start_ns)
        found = self._found.get(place)
        if found is None:
            found = {}
            for one in self.all:
                if one.from_ns <= start_ns < one.until_ns:
                    found[one.key] = (*found.get(one.key, ()), one)
            self._found[place] = found
        return found


def reaches_of(plans: Iterable[Plan]) -> tuple[Reach, ...]:
    """What every version reaches back for, from the one that follows it in time on. A meter, or buckets of
    it, that an earlier version had as well begin where that one ended."""
    found: list[Reach] = []
    counted_until: dict[tuple[str, int], int] = {}
    for plan, from_ns, until_ns in _held(plans):
        for key, meter in plan.meters.items():
            for length_ns in (TOTAL, *meter.bucket_lengths_ns):
                before_ns = counted_until.get((key, length_ns), 0)
                counted_until[key, length_ns] = until_ns
                if before_ns != from_ns:
                    first_ns = max(before_ns, _first_ns(meter, length_ns, from_ns))
                    if first_ns < from_ns:
                        found.append(Reach(key, length_ns, first_ns, from_ns))
    return tuple(found)


def is_past(reach: Reach, meter: Meter, newest_ns: int) -> bool:
    """Whether nothing of a reach matters any more once a window has ended at ``newest_ns``."""
    if reach.length_ns != TOTAL:
        return reach.until_ns + RING_BUCKETS * reach.length_ns <= newest_ns
    return meter.is_closed(reach.until_ns - 1, newest_ns // DAY_NS * DAY_NS)


def _held(plans: Iterable[Plan]) -> list[tuple[Plan, int, int]]:
    """Each version that ever holds, in order of time, with [from, until) in which it does."""
    found, until_ns = [], 1 << 62
    for plan in sorted(plans, key=lambda plan: -plan.version):  # the greatest that is active holds
        if plan.active_from_ns < until_ns:
            found.append((plan, plan.active_from_ns, until_ns))
            until_ns = plan.active_from_ns
    return found[::-1]


def _first_ns(meter: Meter, length_ns: int, at_ns: int) -> int:
    """Start of the first window that counts for a meter which comes to hold at ``at_ns``; that where none."""
    budget, rolling_ns = meter.budget, meter.budget.rolling_ns
    period = meter.period(at_ns) if meter.is_effective(at_ns) else None
    if period is None:
        return at_ns
    if length_ns == TOTAL or (rolling_ns is not None and length_ns == bucket_length_ns(rolling_ns)):
        first_ns = period.start_ns
    else:
        first_ns = at_ns // length_ns * length_ns - (RING_BUCKETS - 1) * length_ns
    if budget.period == "fixed":
        first_ns = max(first_ns, period.start_ns)
    return max(first_ns, budget.effective_from_ns, 0)
