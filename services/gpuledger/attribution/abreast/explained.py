"""A and the consumers' parts of it (evidence.py), in columns.

A device is left to the plain way where something is odd: signals that disagree, a value beyond what there is,
an end that was not seen, measurements of processes that may be believed, estimates that do not sum to what
they should.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuledger.attribution.abreast.integers import remainders_given
from gpuledger.attribution.abreast.seen import Seen
from gpuledger.attribution.abreast.table import Bools, Table
from gpuledger.attribution.estimated import ENOUGH
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
    """Columns by device: ``done`` where the rest holds, A in ns, whether it is the device's own total, and
    whether the parts were visibly cut down to it. Columns by process at work on a device, in order of claims:
    its claim and device, its used and busy ns, and the bounds of ``used``."""

    done: Bools
    occupied: Longs
    by_device: Bools
    scaled_down: Bools
    claim: Longs
    device: Longs
    used: Longs
    busy: Longs
    low: Longs
    high: Longs


class _Processes(NamedTuple):
    """What is known of each process on a simple device, in order of claims (seen.py, ``ProcessView``)."""

    claim: Longs
    device: Longs
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


class _Devices(NamedTuple):
    """Columns by device: ns of the piece and what the device's own counters say that it was busy; ``rows`` is
    the device of each process."""

    length: Doubles
    by_device: Bools
    whole: Doubles
    rows: Longs

    def total(self, values: Doubles) -> Doubles:
        """Sums over the processes of each device, in their order, as evidence.py adds them up."""
        return np.bincount(self.rows, values, len(self.length)).astype(np.float64)

    def any(self, which: Bools) -> Bools:
        """Whether it holds for a process of each device."""
        found: Bools = np.bincount(self.rows[which], minlength=len(self.length)) > 0
        return found


def _over(value: Doubles, divisor: Doubles) -> Doubles:
    found = np.zeros(len(value))
    return np.divide(value, divisor, out=found, where=divisor > 0)


def explained(table: Table, there: Seen, shares: Shares) -> Explained:
    """See ``Explained``."""
    each = _processes(table, there, shares)
    row = each.device
    length = there.length.astype(np.float64)
    outstanding = np.bincount(row, each.outstanding, len(length)).astype(np.float64)
    device_ns, fine, by_device = _occupied(table, there, outstanding, length)
    devices = _Devices(length, by_device, np.where(fine & by_device, device_ns, 0.0), row)
    parts, sums = _estimate(devices, there, each)
    busy = np.rint(parts)
    whole = np.where(by_device, devices.whole, devices.total(busy))
    devices = devices._replace(whole=whole)
    working = np.flatnonzero(each.outstanding > 0)
    twice = working[1:][each.claim[working[1:]] == each.claim[working[:-1]]]
    done = there.simple & fine & sums & (whole >= 0) & (whole <= length)
    done[row[twice]] = False
    done &= ~devices.any(each.end_unseen > 0)
    most = np.where(by_device, whole, length)
    done &= devices.total(each.measured) <= most + MEASURED_TOLERANCE * length
    done &= ~_may_be_measured(table, devices, each)
    low, high = (np.rint(bound) for bound in _interval(devices, each, busy))
    occupied = np.minimum(length, np.rint(whole))
    whole_busy = devices.total(busy)
    cut = whole_busy > occupied
    used = _cut(busy, occupied, whole_busy, row)
    low = np.minimum(np.where(cut[row], np.maximum(0, low - (busy - used)), low), used)
    high = np.maximum(np.minimum(high, length[row]), used)

    def of_workers(column: Doubles) -> Longs:
        return column[working].astype(np.int64)

    return Explained(
        done=done,
        occupied=occupied.astype(np.int64),
        by_device=by_device,
        scaled_down=(whole_busy - occupied > SCALING_NOTICED * length) & by_device,
        claim=each.claim[working],
        device=row[working],
        used=of_workers(used),
        busy=of_workers(busy),
        low=of_workers(low),
        high=of_workers(high),
    )


def _processes(table: Table, there: Seen, shares: Shares) -> _Processes:
    pairs = np.flatnonzero(there.viewed & (table.claim_of_pair >= 0))
    pairs = pairs[np.argsort(table.claim_of_pair[pairs], kind="stable")]
    device = there.row_of_pair[pairs]
    keep = there.simple[device]
    pairs, device = pairs[keep], device[keep]
    share_of_pair = np.full(len(there.viewed), -1)
    share_of_pair[shares.pair] = np.arange(len(shares.pair))
    share = share_of_pair[pairs]

    def of_share(column: Longs) -> Doubles:
        return np.append(column, 0)[np.where(share < 0, len(column), share)].astype(np.float64)

    return _Processes(
        claim=table.claim_of_pair[pairs],
        device=device,
        estimated=of_share(shares.estimated),
        outstanding=of_share(shares.outstanding),
        alone=of_share(shares.alone),
        end_unseen=of_share(shares.unwitnessed),
        brief=of_share(shares.brief),
        uneven=of_share(shares.uneven),
        cap=of_share(shares.cap),
        learned=of_share(shares.learned),
        unlearned=of_share(shares.unlearned),
        measured=there.measured[pairs],
        cover=there.cover[pairs],
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


def _estimate(devices: _Devices, there: Seen, each: _Processes) -> tuple[Doubles, Bools]:
    """(busy ns of each process by the estimate, by device whether they sum to what they should);
    estimated.py for processes whose work was all seen to its end."""
    lonely = there.processes[each.device] == 1
    limited = np.where(each.known, each.demand, np.minimum(each.estimated, each.cap))
    parts = np.where(lonely, each.estimated, limited)
    union, whole = devices.total(each.estimated), devices.total(parts)
    least = np.where(devices.by_device, np.minimum(union, devices.whole), union)
    fits = (least - ENOUGH * devices.length <= whole) & (whole <= union)
    return parts, fits | (there.processes == 1)


def _may_be_measured(table: Table, devices: _Devices, each: _Processes) -> Bools:
    """By device: whether the measured values may be plausible (measured.py)."""
    length = devices.length[each.device]
    refused = (each.outstanding > NOTICEABLE * length) & (each.cover < MEASURED_COVERAGE * length)
    refused |= each.measured > each.outstanding + NOTICEABLE * length
    refused |= each.measured < each.alone - MISSED_POINTS * length
    estimate = np.where(each.known, each.demand, each.estimated)
    sure = (each.doubtful <= CERTAIN) & (np.abs(each.measured - estimate) <= FAR_POINTS * length)
    active = (each.outstanding > 0) | (each.measured > 0)
    confirmed = ~devices.any(active & ~sure)
    confirmed &= np.abs(devices.total(estimate) - devices.whole) <= CONFIRMED_POINTS * devices.length
    far = np.abs(devices.total(each.measured) - devices.whole) > MEASURED_TOLERANCE * devices.length
    covered = devices.any(each.cover > 0) & ~table.facts.by_sm
    return covered & ~(devices.any(refused) | confirmed | far)


def _interval(devices: _Devices, each: _Processes, busy: Doubles) -> tuple[Doubles, Doubles]:
    """Bounds of each process's busy time by the estimate (interval.py)."""
    row, known, doubtful = each.device, each.known, each.doubtful
    unsure = np.minimum(1.0, _over(np.maximum(each.end_unseen, each.brief) + each.uneven, each.outstanding))
    doubt = busy * np.where(known, doubtful, np.maximum(doubtful, unsure))
    more = np.where(known, 0.0, np.maximum(0.0, each.cap - busy) * doubtful)
    margin = (ESTIMATE_POINTS * devices.length)[row]
    low = busy - doubt - (devices.total(more)[row] - more) - margin
    high = busy + more + devices.total(doubt)[row] - doubt + margin
    high = np.minimum(high, np.maximum(each.outstanding, busy))
    return np.maximum(0.0, low), np.minimum(devices.length[row], high)


def _cut(busy: Doubles, occupied: Doubles, total: Doubles, row: Longs) -> Doubles:
    """What the parts sum to above A is taken off them in proportion."""
    used = busy.copy()
    over = np.flatnonzero((total > occupied)[row])
    device = row[over]
    used[over] = remainders_given(
        device,
        occupied[device].astype(np.int64),
        busy[over].astype(np.int64),
        total[device].astype(np.int64),
    )
    return used
