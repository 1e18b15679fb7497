"""Which hours are a team's working hours."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from gpuledger.recommend.evidence import Hour
from gpuledger.recommend.settings import Limits

_SATURDAY = 5


def at_work(hour: Hour, limits: Limits) -> bool:
    """Whether an hour begins in the team's working hours."""
    local = datetime.fromtimestamp(hour.start_s, UTC).astimezone(ZoneInfo(limits.time_zone))
    begin, end = limits.work_hours
    return local.weekday() < _SATURDAY and begin <= local.hour < end
