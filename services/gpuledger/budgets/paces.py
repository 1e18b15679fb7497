"""What is spent, how fast, and when the amount will be used up at that pace."""

from __future__ import annotations

from fractions import Fraction

from gpuledger.budgets.catalog import BURN_BUCKET_NS, Meter
from gpuledger.budgets.periods import Period, bucket_length_ns
from gpuledger.budgets.sums import Spent, Sums
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing.currencies import FOREVER_NS

RECENT_NS = 6 * HOUR_NS  # of the second of the two paces that a forecast goes by


def spent_in(meter: Meter, period: Period, sums: Sums) -> Spent:
    """What is counted in a period. Of a rolling one, what is measured in its amount's unit alone."""
    rolling_ns = meter.budget.rolling_ns
    if rolling_ns is None:
        return sums.spent(meter.key, period.start_ns)
    length_ns = bucket_length_ns(rolling_ns)
    amount = sums.bucketed(meter.key, length_ns, period.end_ns - rolling_ns, period.end_ns)
    through_ns = sums.newest_end_ns
    return Spent(amount, 0, 0, through_ns) if meter.money else Spent(0, amount, 0, through_ns)


def burnt(meter: Meter, span_ns: int, sums: Sums) -> tuple[int, int]:
    """Amount over the buckets of a span, the one under way included for as far as it has come, and its ns."""
    now_ns = sums.newest_end_ns
    first_ns = (now_ns - 1) // BURN_BUCKET_NS * BURN_BUCKET_NS + BURN_BUCKET_NS - span_ns
    if span_ns == BURN_BUCKET_NS:
        first_ns -= BURN_BUCKET_NS  # a bucket that has just begun says nothing yet
    return sums.bucketed(meter.key, BURN_BUCKET_NS, first_ns, now_ns), now_ns - first_ns


def forecast_of(meter: Meter, period: Period, amount: int, sums: Sums) -> tuple[int, int] | None:
    """Earliest and latest instant at which the amount is used up, by the period's pace and the recent one.

    None where it is used up, nothing is spent, the period rolls, or it lasts beyond all time of the ledger,
    whose end a latest instant is at most.
    """
    now_ns, left = sums.newest_end_ns, meter.amount - amount
    if meter.budget.rolling_ns is not None or left <= 0 or now_ns <= period.start_ns:
        return None
    paces = [Fraction(amount, now_ns - period.start_ns)]
    if BURN_BUCKET_NS in meter.bucket_lengths_ns:
        span_ns = min(RECENT_NS, max(BURN_BUCKET_NS, now_ns - period.start_ns))
        paces.append(Fraction(*burnt(meter, span_ns, sums)))
    going = [pace for pace in paces if pace > 0]
    if not going:
        return None
    low_ns, high_ns = (now_ns + int(left / pace) for pace in (max(going), min(going)))
    return (low_ns, min(high_ns, FOREVER_NS)) if low_ns < FOREVER_NS else None
