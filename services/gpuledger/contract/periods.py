"""Booking periods: months (UTC) that finance closes, and what of the ledger is booked in which.

What a closed month was charged stays booked. When one of its hours is charged otherwise later, the state of
the hour as it was is kept (``Booked``), and the difference is booked as a correction in the month that was
open then. The states kept of an hour, in order, and its present one are a chain

    state 1 | state 2 - state 1 | ... | present - last state

whose parts are booked in the hour's own month and in the months behind each close. The parts sum to the
present state, whatever was kept when; only the last part moves while its month is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.windows import NS_PER_S

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
MONTHS_A_YEAR = 12


class Booked(NamedTuple):
    """A state of an hour that was kept: ``version`` ranks it, and what it adds to the one before it is booked
    in ``booking_period``. It was the present one when the months up to ``through`` were closed."""

    through: str
    booking_period: str
    version: int


def is_period(text: str) -> bool:
    """Whether it is a month such as 2026-11."""
    return _MONTH.fullmatch(text) is not None


def period_of(unix_ns: int) -> str:
    """The month that an instant lies in, as 2026-11."""
    return datetime.fromtimestamp(unix_ns // NS_PER_S, UTC).strftime("%Y-%m")


def following(period: str) -> str:
    """The month behind it."""
    months = int(period[:4]) * MONTHS_A_YEAR + int(period[5:])
    return f"{months // MONTHS_A_YEAR:04d}-{months % MONTHS_A_YEAR + 1:02d}"


def end_ns(period: str) -> int:
    """The instant at which a month is over (Unix ns)."""
    return int(datetime.fromisoformat(f"{following(period)}-01T00:00:00+00:00").timestamp()) * NS_PER_S


def closed_through(versions: Iterable[PeriodsVersion], at_ns: int) -> str:
    """The last month that is closed at an instant; empty where none is."""
    return max((one.closed_through for one in versions if one.active_from_ns <= at_ns), default="")


def keep(kept: Sequence[Booked], own: str, closed: str, version: int) -> Booked | None:
    """What is to be kept of an hour of the month ``own`` before it changes, while the months up to ``closed``
    are; ``version`` is its present state. None where nothing is: the month is open, or the state that was
    booked is kept already. ``kept`` are the states kept, in any order.
    """
    if own > closed:
        return None
    last = max(kept, default=None)
    if last is not None and last.through >= closed:
        return None
    return Booked(closed, own if last is None else following(last.through), version)
