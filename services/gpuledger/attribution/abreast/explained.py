"""A and the consumers' parts of it (evidence.py), for devices on which nobody or one process was at work.

A device is left to the plain way where something is odd: signals that disagree, a value beyond what there is,
an end that was not seen, measurements of processes that may be believed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuledger.attribution.abreast.seen import Seen
from gpuledger.attribution.abreast.table import Bools, Table
from gpuledger.attribution.evidence import SCALING_NOTICED
from gpuledger.attribution.interval import ESTIMATE_POINTS
from gpuledger.attribution.measured import (
    CERTAIN,
    CONFIRMED_POINTS,
    FAR_POINTS,
    MEASURED_COVERAGE,
    MEASURED_TOLERANCE,
    MISSED_POINTS,
)
from gpuledger.attribution.seen import KNOWN, LEARNED_DOUBT, NOTICEABLE
from gpuledger.attribution.sharing import Shares
from gpuledger.contract.columns import Doubles, Longs


class Explained(NamedTuple):
    """Columns by device: ``done`` where the rest holds, A in ns and whether it is the device's own total; of
    the one process at work its pair, -1 without, its used and busy ns, the bounds of ``used``, and whether it
    was visibly cut down to A."""

    done: Bools
    occupied: Longs
    by_device: Bools
    pair: Longs
    used: Longs
    busy: Longs
    low: Longs
    high: Longs
    scaled_down: Bools


class _Worker(NamedTuple):
    """The one process at work on each device; all 0 where there is none (seen.py, ``ProcessView``)."""

    pair: Longs
    estimated: Doubles
    outstanding: Doubles
    alone: Doubles
    end_unseen: Doubles
    brief: Doubles
    uneven: Doubles
    cap: Doubles
    learned: Doubles
    unlearned: Doubles
    measured: Doubles
    cover: Doubles

    @property
    def known(self) -> Bools:
        found: Bools = (self.learned > 0) & (self.unlearned <= (1 - KNOWN) * self.outstanding)
        return found

    @property
    def demand(self) -> Doubles:
        rest = _over(self.estimated * self.unlearned, self.outstanding)
        found: Doubles = np.minimum(self.outstanding, self.learned + rest)
        return found

    @property
    def doubtful(self) -> Doubles:
        unsure = _over(np.maximum(self.end_unseen, self.brief), self.outstanding)
        return np.where(self.known, LEARNED_DOUBT, np.minimum(1.0, unsure))


def _over(value: Doubles, divisor: Doubles) -> Doubles:
    found = np.zeros(len(value))
    return np.divide(value, divisor, out=found, where=divisor > 0)


def explained(table: Table, there: Seen, shares: Shares) -> Explained:
    """See ``Explained``."""
    length = there.length.astype(np.float64)
    one = _worker(there, shares)
    known, doubtful = one.known, one.doubtful
    device_ns, done, by_device = _occupied(table, there, one.outstanding, length)
    quiet = there.active == 0
    done &= there.simple & (quiet | ((there.active == 1) & (there.processes == 1)))
    done &= quiet | ((one.outstanding > 0) & (one.end_unseen == 0))
    busy = np.rint(one.estimated)
    whole = np.where(done, np.where(by_device, device_ns, busy), 0.0)
    done &= (whole >= 0) & (whole <= length)
    done &= one.measured <= np.where(by_device, whole, length) + MEASURED_TOLERANCE * length
    done &= ~_may_be_measured(table, there, one, by_device, whole, length)
    low, high = _interval(one, busy, known, doubtful, length)
    occupied = np.minimum(length, np.rint(whole))
    used = np.minimum(busy, occupied)
    noticed = (busy - occupied > SCALING_NOTICED * length) & by_device
    low = np.where(busy > occupied, np.maximum(0, np.rint(low) - (busy - used)), np.rint(low))
    low = np.minimum(low, used)
    high = np.maximum(np.minimum(np.rint(high), length), used)

    def of_worker(column: Doubles) -> Longs:
        return np.where(quiet, 0, column).astype(np.int64)

    return Explained(
        done=done,
        occupied=occupied.astype(np.int64),
        by_device=by_device,
        pair=np.where(quiet, -1, one.pair),
        used=of_worker(used),
        busy=of_worker(busy),
        low=of_worker(low),
        high=of_worker(high),
        scaled_down=~quiet & noticed,
    )


def _worker(there: Seen, shares: Shares) -> _Worker:
    single = there.active > 0
    none = np.zeros(len(single))
    if not len(shares.pair):
        return _Worker(np.full(len(single), -1), *[none] * 11)
    pair = shares.pair[there.share]

    def of_share(column: Longs) -> Doubles:
        return np.where(single, column[there.share], 0).astype(np.float64)

    return _Worker(
        pair=pair,
        estimated=of_share(shares.estimated),
        outstanding=of_share(shares.outstanding),
        alone=of_share(shares.alone),
        end_unseen=of_share(shares.unwitnessed),
        brief=of_share(shares.brief),
        uneven=of_share(shares.uneven),
        cap=of_share(shares.cap),
        learned=of_share(shares.learned),
        unlearned=of_share(shares.unlearned),
        measured=np.where(single, there.measured[pair], 0.0),
        cover=np.where(single, there.cover[pair], 0.0),
    )


def _occupied(
    table: Table, there: Seen, outstanding: Doubles, length: Doubles
) -> tuple[Doubles, Bools, Bools]:
    """(busy ns by the device's own counters, whether A is simple, whether it rests on them); occupied.py."""
    facts = table.facts
    utilization = np.where(np.isnan(there.utilization), 0.0, there.utilization)
    working = (utilization > NOTICEABLE) | (outstanding > NOTICEABLE * length)
    by_time, by_sm = ~facts.by_sm, facts.by_sm & facts.declared
    stood = (there.engine == 0.0) | (there.sm_active == 0.0)
    done = np.where(by_time, ~np.isnan(there.engine) & ~(stood & working), True)
    stuck = (there.sm_active == 0.0) & working
    done &= np.where(by_sm, ~np.isnan(there.sm_active) & ~stuck, True)
    device_ns = np.where(by_time, there.engine, there.sm_active) * length
    return device_ns, done, by_time | by_sm


def _may_be_measured(
    table: Table, there: Seen, one: _Worker, by_device: Bools, whole: Doubles, length: Doubles
) -> Bools:
    """Whether the measured values may be plausible (measured.py)."""
    refused = one.cover <= 0
    refused |= (one.outstanding > NOTICEABLE * length) & (one.cover < MEASURED_COVERAGE * length)
    refused |= one.measured > one.outstanding + NOTICEABLE * length
    refused |= one.measured < one.alone - MISSED_POINTS * length
    refused |= np.abs(one.measured - whole) > MEASURED_TOLERANCE * length
    estimate = np.where(one.known, one.demand, one.estimated)
    certain = (one.doubtful <= CERTAIN) & (np.abs(one.measured - estimate) <= FAR_POINTS * length)
    refused |= certain & (np.abs(estimate - whole) <= CONFIRMED_POINTS * length)
    # nobody at work: measured as nothing, which the device's total confirms or is far from
    near = (whole > CONFIRMED_POINTS * length) & (whole <= MEASURED_TOLERANCE * length)
    quiet = there.active == 0
    doubted = np.where(quiet, there.any_measured | (there.any_covered & near), ~refused)
    found: Bools = np.where(table.facts.by_sm, quiet & there.any_measured, doubted & by_device)
    return found


def _interval(
    one: _Worker, busy: Doubles, known: Bools, doubtful: Doubles, length: Doubles
) -> tuple[Doubles, Doubles]:
    """Bounds of the worker's busy time by the estimate (interval.py)."""
    unsure = np.minimum(1.0, _over(np.maximum(one.end_unseen, one.brief) + one.uneven, one.outstanding))
    doubt = busy * np.where(known, doubtful, np.maximum(doubtful, unsure))
    more = np.where(known, 0.0, np.maximum(0.0, one.cap - busy) * doubtful)
    margin = ESTIMATE_POINTS * length
    low = busy - doubt - margin
    high = busy + more + doubt - doubt + margin
    high = np.minimum(high, np.maximum(one.outstanding, busy))
    return np.maximum(0.0, low), np.minimum(length, high)
