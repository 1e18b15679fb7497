"""Simulated fleets over months: jobs come by the hour and the weekday, more of them each month, and stay.

A job asks for some GPUs and holds them for a log-normal time, so what is spent in one bucket says much of the
next, and a day something of the following: errors of days are not independent, as in a real fleet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from gpuledger.budgets.history import BUCKET_NS, BUCKETS_A_DAY, HISTORY_DAYS, Expected, expected
from gpuledger.contract.columns import Doubles
from gpuledger.contract.windows import DAY_NS, HOUR_NS

# of a day, by the hour: people at work, and what they leave running
BY_HOUR = (
    *(0.35, 0.30, 0.25, 0.25, 0.25, 0.30, 0.45, 0.70, 1.10, 1.50, 1.70, 1.80),
    *(1.60, 1.70, 1.80, 1.80, 1.70, 1.50, 1.20, 1.00, 0.80, 0.70, 0.55, 0.45),
)
GPUS_OF_A_JOB, SHARE_OF_JOBS = (1, 2, 4, 8), (0.30, 0.20, 0.25, 0.25)
SPREAD = 1.0  # of the logarithm of how long a job stays
BEFORE_DAYS = 14  # until as many jobs end as come
PERIOD_DAYS = 30
MOMENTS = (0.25, 0.5, 0.75)  # of the period
FIRST_DAY = 20_000  # since the epoch
HOURS_A_DAY = DAY_NS // HOUR_NS


class Season(NamedTuple):
    """A fleet: GPUs in use on the mean, what a day of a weekend has of a weekday, growth a month."""

    seed: int
    gpus: float
    weekend: float
    growth: float
    job_hours: float


class Forecast(NamedTuple):
    """What was expected at a moment of a period, and what then happened; GPU-hours of what is left of it.

    ``pace`` is what the even pace of the period so far says, ``total`` all that the period came to.
    """

    season: Season
    moment: float
    expected: Expected
    happened: float
    pace: float
    total: float

    @property
    def held(self) -> bool:
        """Whether it lay within the interval."""
        return self.expected.low <= self.happened <= self.expected.high

    def error(self, said: float) -> float:
        """Of the whole period, as a share of it."""
        return abs(said - self.happened) / self.total


def seasons(a_kind: int) -> Iterator[Season]:
    """So many fleets of each kind, each with a seed of its own."""
    kinds = product((200, 1000), (0.3, 0.8), (-0.1, 0.0, 0.1, 0.3), (3.0, 10.0), range(a_kind))
    for seed, (gpus, weekend, growth, job_hours, _) in enumerate(kinds):
        yield Season(seed, gpus, weekend, growth, job_hours)


def spent(season: Season, days: int) -> Doubles:
    """GPU-hours in each two hours of so many days from FIRST_DAY plus the seed on."""
    random = np.random.default_rng(season.seed)
    hours = np.arange((BEFORE_DAYS + days) * HOURS_A_DAY)
    weekday = (_first_day(season) - BEFORE_DAYS + hours // HOURS_A_DAY + 3) % 7  # 1970-01-01: a Thursday
    rate = np.array(BY_HOUR)[hours % HOURS_A_DAY] * np.where(weekday >= 5, season.weekend, 1.0)
    rate *= (1 + season.growth) ** (hours / HOURS_A_DAY / PERIOD_DAYS)
    rate *= season.gpus / season.job_hours / float(np.dot(GPUS_OF_A_JOB, SHARE_OF_JOBS))
    jobs = random.poisson(rate)
    starts = np.repeat(hours, jobs) + random.random(jobs.sum())
    middle = np.log(season.job_hours) - SPREAD**2 / 2
    ends = starts + random.lognormal(middle, SPREAD, starts.size)
    gpus = random.choice(GPUS_OF_A_JOB, starts.size, p=SHARE_OF_JOBS).astype(np.float64)
    edges = np.arange(BEFORE_DAYS * HOURS_A_DAY, hours.size + 1, BUCKET_NS // HOUR_NS).astype(np.float64)
    used: Doubles = np.diff(_since(edges, starts, gpus) - _since(edges, ends, gpus))
    return used


def forecasts(season: Season) -> Iterator[Forecast]:
    """At each moment of a period what is expected of the rest, from the three weeks before."""
    before = HISTORY_DAYS + 1
    buckets = spent(season, before + PERIOD_DAYS)
    start_ns = _first_day(season) * DAY_NS
    begin, end_ns = before * BUCKETS_A_DAY, start_ns + (before + PERIOD_DAYS) * DAY_NS
    for moment in MOMENTS:
        now = begin + int(moment * PERIOD_DAYS) * BUCKETS_A_DAY
        first = now - HISTORY_DAYS * BUCKETS_A_DAY
        found = expected(buckets[first:now], start_ns + first * BUCKET_NS, end_ns)
        assert found is not None
        pace = buckets[begin:now].mean() * (buckets.size - now)
        happened, total = buckets[now:].sum(), buckets[begin:].sum()
        yield Forecast(season, moment, found, float(happened), float(pace), float(total))


def _first_day(season: Season) -> int:
    return FIRST_DAY + season.seed


def _since(edges: Doubles, instants: Doubles, gpus: Doubles) -> Doubles:
    """GPU-hours up to each edge of GPUs that are taken at those instants and never given back."""
    order = np.argsort(instants)
    taken = np.concatenate([[0.0], np.cumsum(gpus[order])])
    moments = np.concatenate([[0.0], np.cumsum(gpus[order] * instants[order])])
    place = np.searchsorted(instants[order], edges, side="right")
    found: Doubles = edges * taken[place] - moments[place]
    return found
