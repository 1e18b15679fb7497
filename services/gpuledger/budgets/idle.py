"""The rule that money is held idle at some rate or more, for longer than a time, without a break."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.budgets.catalog import BURN_BUCKET_NS, IDLE, Meter
from gpuledger.budgets.condition import Condition, breach_id
from gpuledger.budgets.periods import Period
from gpuledger.budgets.rings import RING_BUCKETS
from gpuledger.budgets.sums import Sums
from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.records import BudgetRule
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS

LOOKS_BACK = RING_BUCKETS - 2  # the bucket under way and the one that still fills up are kept as well
FORGIVEN_BUCKETS = 6  # half an hour: so long a break may be one of charges that are still on their way
MONEY_DIGITS = 2


def settled_ns(now_ns: int) -> int:
    """Until when buckets are judged: one that ended less than its own length ago may lack charges."""
    return (now_ns // BURN_BUCKET_NS - 1) * BURN_BUCKET_NS


class _Stretch(NamedTuple):
    """Buckets without a break: where it begins and ends, among those that are looked at."""

    first: int = LOOKS_BACK
    end: int = LOOKS_BACK

    @property
    def lasted_ns(self) -> int:
        return (self.end - self.first) * BURN_BUCKET_NS

    @property
    def is_recent(self) -> bool:
        return self.end >= LOOKS_BACK - FORGIVEN_BUCKETS


def of_idle(meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule) -> Condition:
    """The line of a rule ``idle``: it holds from half its time on, and is ripe once all of it has passed.

    Its period in the condition begins where what is held idle began to be so; ``spent`` counts from there.
    """
    longer_than_ns = int(rule.parameters["longer_than_ns"])
    until_ns = settled_ns(sums.newest_end_ns)
    first_ns = until_ns - LOOKS_BACK * BURN_BUCKET_NS
    amounts = sums.buckets(meter.key, BURN_BUCKET_NS, first_ns, LOOKS_BACK)
    breaks = amounts < _least(meter, int(rule.parameters["an_hour_nano"]))
    chosen = _chosen(breaks, longer_than_ns)
    spent = int(amounts[chosen.first : chosen.end].sum())
    ripe = chosen.is_recent and chosen.lasted_ns >= longer_than_ns
    ends_ns = first_ns + (np.flatnonzero(breaks) + 1) * BURN_BUCKET_NS
    return Condition(
        id=breach_id(meter.budget.id, IDLE, 0, ""),
        meter=meter,
        version=version,
        rule=IDLE,
        period=Period(first_ns + chosen.first * BURN_BUCKET_NS, period.end_ns),
        holds=chosen.is_recent and 2 * chosen.lasted_ns >= longer_than_ns,
        ripe=ripe,
        needed_ns=longer_than_ns,
        breaks_ns=() if ripe else tuple(ends_ns.tolist()),
        over=False,
        spent=spent,
        spent_gpu_ns=0 if meter.money else spent,
        unconverted_nano=0,
        through_ns=until_ns,
        told=f"{_said(meter, spent)} held idle in {_lasting(chosen.lasted_ns)} without a break",
    )


def _chosen(breaks: npt.NDArray[np.bool_], longer_than_ns: int) -> _Stretch:
    """The newest of those that go on, or ended a moment ago, that is long enough, else that is half so long;
    without one the newest that was long enough."""
    edges = np.flatnonzero(np.diff(np.concatenate(([True], breaks, [True]))))
    starts, ends = edges[::2], edges[1::2]
    lasted_ns, recent = (ends - starts) * BURN_BUCKET_NS, ends >= LOOKS_BACK - FORGIVEN_BUCKETS
    enough = lasted_ns >= longer_than_ns
    for fits in (enough & recent, (2 * lasted_ns >= longer_than_ns) & recent, enough):
        if fits.any():
            newest = np.flatnonzero(fits)[-1]
            return _Stretch(int(starts[newest]), int(ends[newest]))
    return _Stretch()


def _least(meter: Meter, an_hour_nano: int) -> int:
    """What a bucket must hold, in the unit of the amount; of a budget in GPU-hours the rate is GPUs."""
    return -(-an_hour_nano * BURN_BUCKET_NS // (HOUR_NS if meter.money else NANO_PER_UNIT))


def _lasting(span_ns: int) -> str:
    hours, minutes = divmod(span_ns // MINUTE_NS, 60)
    return f"{hours} h {minutes} min"


def _said(meter: Meter, amount: int) -> str:
    if meter.money:
        return f"{format_nano(amount, MONEY_DIGITS)} {meter.budget.currency}"
    return f"{amount / HOUR_NS:.1f} GPU-hours"
