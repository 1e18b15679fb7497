"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_time_ns(text: object) -> int | None:
    """RFC 3339 text in ns since the Unix epoch (to the microsecond); None where it is no time."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time - _EPOCH) // _MICROSECOND * 1000 if time.tzinfo is not None else None
