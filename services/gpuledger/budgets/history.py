"""A budget's own history in buckets of two hours: what to expect next, and whether the newest is out of line.

Both look back over HISTORY_DAYS. The model of ``expected`` is (level + trend) x profile. The profile is the
median of each two hours of the day, of weekdays and of weekend days, as a share of the level; the level is
the mean of the last week; the trend, a day, the change of that week's mean against the week before, as far as
it is clear of its own error, fading by half each week ahead. The interval is meant to hold 8 of 10 and more
(benchmarks/forecast.py). It has the variance of the days ahead, of the level (a mean of 7 days) and of the
trend (of two such means), left out or not, by Student's t for as many days as there are. It is wider by
sqrt((1 + r) / (1 - r)), a first-order autoregression's factor, as the errors of days that follow each other
are alike: jobs outlive a day. r is half of what is found, since two weeks say little of it. That the trend
may not fade widens it as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.contract.columns import Doubles
from gpuledger.contract.windows import DAY_NS, HOUR_NS

BUCKET_NS = 2 * HOUR_NS
BUCKETS_A_DAY = DAY_NS // BUCKET_NS
HISTORY_DAYS = 21  # three weeks: as much as the buckets that are kept hold
WEEK_DAYS = 7
LEAST_DAYS = 7  # of history, without which nothing is said
LEAST_SAME = 5  # earlier buckets of the same time of day, without which none is out of line
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
HALF_LIFE_DAYS = 7.0
EIGHT_OF_TEN = {7: 1.44, 14: 1.36}  # standard deviations to either side, by days: Student's t of 6 and 12
MOST_LIKENESS = 0.7
CLEAR_ERRORS = 2.0  # of a trend: with none left out a forecast errs more than the even pace does
_THURSDAY = 3  # 1970-01-01


class Expected(NamedTuple):
    """What is expected to be spent, in the unit of the amount; ``low`` to ``high`` in 8 of 10."""

    low: float
    mean: float
    high: float


def expected(history: Doubles, first_ns: int, until_ns: int) -> Expected | None:
    """What follows a history, up to an instant.

    ``history`` has whole days of buckets (float64, oldest first), ``first_ns`` is the start of its first.
    None with less than LEAST_DAYS of them.
    """
    days = history.size // BUCKETS_A_DAY
    if days < LEAST_DAYS:
        return None
    by_day = history.reshape(days, BUCKETS_A_DAY)
    weekend = _is_weekend(first_ns, days)
    profile = _profile(by_day, weekend)
    error, likeness, recent = _day_errors(by_day, profile, weekend)
    alike = (1 + likeness) / (1 - likeness)
    level, change = _level(by_day), _change(by_day)
    clear = _clear(change, error / BUCKETS_A_DAY * float(np.sqrt(2 / WEEK_DAYS * alike)))
    trend = clear * change / WEEK_DAYS
    start_ns = first_ns + days * DAY_NS
    ahead = max(0.0, (until_ns - start_ns) / BUCKET_NS)
    whole = int(ahead)
    numbers = np.arange(whole + 1)
    of_weekend = _is_weekend(start_ns, whole // BUCKETS_A_DAY + 1)[numbers // BUCKETS_A_DAY]
    share = profile[of_weekend.astype(int), numbers % BUCKETS_A_DAY]
    distance_days = numbers / BUCKETS_A_DAY
    faded_days = HALF_LIFE_DAYS / np.log(2) * (1 - 0.5 ** (distance_days / HALF_LIFE_DAYS))
    drift = trend * (WEEK_DAYS / 2 + faded_days)  # the level is that of the middle of the last week
    weights = np.ones(whole + 1)
    weights[-1] = ahead - whole
    mean = float((np.maximum(0.0, (level + drift) * share) * weights).sum())
    shares = float((share * weights).sum())
    lead_days = float((share * weights * (WEEK_DAYS / 2 + faded_days)).sum()) / shares if shares else 0.0
    lean = lead_days / WEEK_DAYS if change else 0.0  # on the last week against the one before
    of_level = ((1 + lean) ** 2 + lean**2) / WEEK_DAYS * (shares / BUCKETS_A_DAY) ** 2
    of_days = shares**2 / BUCKETS_A_DAY / ahead if ahead else 0.0
    spread = error**2 * (of_level + of_days) * alike
    unfaded = trend * float((share * weights * (distance_days - faded_days)).sum())
    wide = EIGHT_OF_TEN[recent] * float(np.sqrt(spread + unfaded**2))
    return Expected(max(0.0, mean - wide), mean, mean + wide)


def deviation(newest: float, same: Doubles) -> float | None:
    """How far a bucket lies from earlier ones of the same time of day, in robust standard deviations.

    (x - median) / (1.4826 MAD), Hampel's identifier; the MAD is taken as 5 % of the median at least, or any
    change of a history that never moved would be infinite. None with fewer than LEAST_SAME, or a median of 0.
    """
    if same.size < LEAST_SAME:
        return None
    median = float(np.median(same))
    if median <= 0:
        return None
    spread = max(float(np.median(np.abs(same - median))), 0.05 * median)
    return (newest - median) / (MAD_TO_DEVIATION * spread)


def _is_weekend(first_ns: int, days: int) -> npt.NDArray[np.bool_]:
    weekday = (first_ns // DAY_NS + np.arange(days) + _THURSDAY) % WEEK_DAYS
    found: npt.NDArray[np.bool_] = weekday >= WEEK_DAYS - 2
    return found


def _level(by_day: Doubles) -> float:
    return float(by_day[-WEEK_DAYS:].mean())


def _change(by_day: Doubles) -> float:
    """Of a bucket's level from week to week; 0 with less than two weeks."""
    if len(by_day) < 2 * WEEK_DAYS:
        return 0.0
    return float(by_day[-WEEK_DAYS:].mean() - by_day[-2 * WEEK_DAYS : -WEEK_DAYS].mean())


def _clear(change: float, error: float) -> float:
    """How much of a change goes on: none of one within CLEAR_ERRORS of its own error, nearly all of a large
    one (a positive-part shrinkage, as of James and Stein)."""
    return max(0.0, 1 - (CLEAR_ERRORS * error / change) ** 2) if change else 0.0


def _day_errors(
    by_day: Doubles, profile: Doubles, weekend: npt.NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Of whole days about the level of their own week, over the last two weeks: standard deviation, how alike
    the errors of two days in a row are, and how many days."""
    days = len(by_day) // WEEK_DAYS * WEEK_DAYS
    weeks = min(2, days // WEEK_DAYS)
    recent = by_day[-weeks * WEEK_DAYS :]
    levels = np.repeat(recent.reshape(weeks, -1).mean(axis=1), WEEK_DAYS)
    shape = profile[weekend[-weeks * WEEK_DAYS :].astype(int)].sum(axis=1)
    errors = recent.sum(axis=1) - levels * shape
    squares = float((errors**2).sum())
    found = float((errors[1:] * errors[:-1]).sum()) / squares if squares else 0.0
    likeness = min(MOST_LIKENESS, max(0.0, found / 2))
    return float(np.sqrt(squares / (errors.size - weeks))), likeness, errors.size


def _profile(by_day: Doubles, weekend: npt.NDArray[np.bool_]) -> Doubles:
    """Share of the level, by (weekend, bucket of the day); scaled so that the last week sums to its level."""
    level = _level(by_day)
    profile = np.ones((2, BUCKETS_A_DAY))
    if level <= 0:
        return profile
    for kind in (0, 1):
        days = by_day[weekend == bool(kind)]
        if len(days):
            profile[kind] = np.median(days, axis=0)
    recent = profile[weekend[-WEEK_DAYS:].astype(int)].mean()
    if recent > 0:
        profile /= recent
    return profile
