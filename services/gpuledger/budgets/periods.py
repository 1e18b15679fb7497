"""The period of a budget that an instant lies in, in the budget's own time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuledger.contract.records import Budget
from gpuledger.contract.windows import MINUTE_NS, NS_PER_S

MAX_BUCKETS = 300  # of a rolling period; more would say little more
BUCKET_LENGTHS_NS = tuple(
    minutes * MINUTE_NS for minutes in (5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
)


class Period(NamedTuple):
    """[start, end) in ns since the Unix epoch."""

    start_ns: int
    end_ns: int


def period_of(budget: Budget, at_ns: int) -> Period | None:
    """The period that an instant lies in; None before or after fixed dates. A rolling one ends there.

    Calendar periods begin at local midnight, weeks on Monday (ISO 8601). A day is 23 or 25 hours long where
    clocks change; midnight that a change skips is the instant of the change.
    """
    if budget.rolling_ns is not None:
        return Period(at_ns - budget.rolling_ns, at_ns)
    if budget.period == "fixed":
        start, end = budget.fixed_from_ns or 0, budget.fixed_to_ns or 0
        return Period(start, end) if start <= at_ns < end else None
    zone = ZoneInfo(budget.time_zone)
    day = datetime.fromtimestamp(at_ns // NS_PER_S, UTC).astimezone(zone).date()
    first, after = _days(budget.period, day)
    return Period(_midnight_ns(first, zone), _midnight_ns(after, zone))


def bucket_length_ns(rolling_ns: int) -> int:
    """How finely a rolling period is counted: in the shortest buckets of which MAX_BUCKETS are enough."""
    return next(
        (length for length in BUCKET_LENGTHS_NS if rolling_ns <= MAX_BUCKETS * length), BUCKET_LENGTHS_NS[-1]
    )


def _days(period: str, day: date) -> tuple[date, date]:
    if period == "month":
        first = day.replace(day=1)
        return first, (first + timedelta(days=32)).replace(day=1)
    if period == "week":
        first = day - timedelta(days=day.weekday())
        return first, first + timedelta(days=7)
    return day, day + timedelta(days=1)


def _midnight_ns(day: date, zone: ZoneInfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * NS_PER_S
