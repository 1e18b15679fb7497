"""The rule that money is held idle at some rate or more, for longer than a time, without a break."""

from __future__ import annotations

import numpy as np

from gpuledger.budgets.catalog import BURN_BUCKET_NS, IDLE, Meter
from gpuledger.budgets.condition import Condition, breach_id
from gpuledger.budgets.periods import Period
from gpuledger.budgets.rings import RING_BUCKETS
from gpuledger.budgets.sums import Sums
from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.records import BudgetRule
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS

LOOKS_BACK = RING_BUCKETS - 2  # the bucket under way and the one that still fills up are kept as well
MONEY_DIGITS = 2


def settled_ns(now_ns: int) -> int:
    """Until when buckets are judged: one that ended less than its own length ago may lack charges."""
    return (now_ns // BURN_BUCKET_NS - 1) * BURN_BUCKET_NS


def of_idle(meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule) -> Condition:
    """The line of a rule ``idle``: it holds from half its time on, and is ripe once all of it has passed.

    Its period in the condition begins where what is held idle began to be so; ``spent`` counts from there.
    """
    longer_than_ns = int(rule.parameters["longer_than_ns"])
    until_ns = settled_ns(sums.newest_end_ns)
    amounts = sums.buckets(meter.key, BURN_BUCKET_NS, until_ns - LOOKS_BACK * BURN_BUCKET_NS, LOOKS_BACK)
    breaks = np.flatnonzero(amounts < _least(meter, int(rule.parameters["an_hour_nano"])))
    first = int(breaks[-1]) + 1 if breaks.size else 0
    since_ns = until_ns - (LOOKS_BACK - first) * BURN_BUCKET_NS
    lasted_ns, spent = until_ns - since_ns, int(amounts[first:].sum())
    return Condition(
        id=breach_id(meter.budget.id, IDLE, 0, ""),
        meter=meter,
        version=version,
        rule=IDLE,
        period=Period(since_ns, period.end_ns),
        holds=lasted_ns > 0 and 2 * lasted_ns >= longer_than_ns,
        ripe=lasted_ns >= longer_than_ns,
        broken_ns=since_ns if breaks.size else None,
        over=False,
        spent=spent,
        spent_gpu_ns=0 if meter.money else spent,
        unconverted_nano=0,
        through_ns=until_ns,
        told=f"{_said(meter, spent)} held idle in {_lasting(lasted_ns)} without a break",
    )


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
