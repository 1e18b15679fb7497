"""All versions of the budgets, and which meters a charge counts for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.budgets.history import BUCKET_NS
from gpuledger.budgets.lines import CATEGORIES, Amounts, Driver, Payer
from gpuledger.budgets.periods import Period, bucket_length_ns, period_of
from gpuledger.budgets.rates import Rates
from gpuledger.budgets.reaches import TOTAL, Reach, reaches_of
from gpuledger.contract.columns import Longs, longs, no_longs
from gpuledger.contract.records import Budget, BudgetsVersion, PriceBookVersion
from gpuledger.contract.windows import DAY_NS, MINUTE_NS

SCOPES = ("team", "cost_centre", "namespace", "workload", "cluster", "gpu_model")
BURN_BUCKET_NS = 5 * MINUTE_NS
IDLE, IDLE_COUNTS = "idle", ["held_idle"]
RESTATED_NS = 8 * DAY_NS  # how far back the processor writes windows anew: so long a period stays open
BEHIND_NS = 7 * DAY_NS  # how far one partition may be behind another: so much longer a total is kept
KNOWN_PAYERS = 100_000  # whose meters are remembered
KNOWN_STARTS = 8  # windows of which it is remembered which budgets hold: those that come now are of few
_SEPARATOR = "\x1f"
_NO_RATES = Rates()


class Meter:
    """A budget, and what of its definition decides what is counted: with another scope it is another meter.

    ``key`` names it through its life; a changed amount, threshold or rule leaves it the same.
    """

    def __init__(self, budget: Budget, is_watch: bool = False) -> None:
        self.budget = budget
        self.is_watch = is_watch  # of a budget that has another one for its amount
        counts = tuple(budget.counts)
        self._chosen = tuple(index for index, name in enumerate(CATEGORIES) if name in counts)
        self.money = budget.amount_nano is not None
        self.amount = budget.amount_nano if budget.amount_nano is not None else budget.amount_gpu_ns or 0
        self._period: Period | None = None
        self.bucket_lengths_ns = self._lengths()
        self.places = tuple((length_ns, None) for length_ns in (TOTAL, *self.bucket_lengths_ns))
        """What of it is counted: its total (0) and its buckets; nothing apart, see ``backfill``."""

    @cached_property
    def key(self) -> str:
        """Id of the budget, and a digest of what decides what it counts."""
        b = self.budget
        parts = (
            *(f"{name}={value}" for name, value in sorted(b.scope.items())),
            b.period,
            *map(str, (b.rolling_ns, b.fixed_from_ns, b.fixed_to_ns, b.time_zone, b.currency, self.money)),
            *sorted(b.counts),
        )
        digest = hashlib.sha256(_SEPARATOR.join(parts).encode()).hexdigest()[:12]
        return f"{b.id}@{digest}"

    def is_effective(self, at_ns: int) -> bool:
        """Whether the budget holds then."""
        end = self.budget.effective_to_ns
        return self.budget.effective_from_ns <= at_ns and (end is None or at_ns < end)

    def period(self, at_ns: int) -> Period | None:
        """The period that an instant lies in."""
        known = self._period
        if known is not None and known.start_ns <= at_ns < known.end_ns:
            return known
        found = period_of(self.budget, at_ns)
        if self.budget.rolling_ns is None:
            self._period = found
        return found

    def total_start_ns(self, at_ns: int) -> int:
        """Start of the total that a window is counted into: of its period; of a rolling budget, whose amount
        is counted in buckets, of the stretch of the same length."""
        rolling_ns = self.budget.rolling_ns
        if rolling_ns is not None:
            return at_ns - at_ns % rolling_ns
        period = self.period(at_ns)
        return period.start_ns if period is not None else 0

    def closed_ns(self, newest_ns: int) -> int:
        """Until when totals are closed once a window has ended at ``newest_ns``: charges that come later, and
        belong to one that ended up to there, count no more. The stretches of a rolling budget, whose amount
        is counted in buckets, are two: the one under way and the one before."""
        rolling_ns = self.budget.rolling_ns
        if rolling_ns is not None:
            return self.total_start_ns(newest_ns) - rolling_ns
        return newest_ns // DAY_NS * DAY_NS - RESTATED_NS

    def dropped_ns(self, newest_ns: int) -> int:
        """Until when totals may be forgotten: closed, also in a partition that is BEHIND_NS behind."""
        return self.closed_ns(newest_ns - (BEHIND_NS if self.budget.rolling_ns is None else 0))

    def is_closed(self, at_ns: int, newest_ns: int) -> bool:
        """Whether the total that a window is counted into is closed."""
        closed_ns = self.closed_ns(newest_ns)
        if at_ns >= closed_ns:
            return False
        rolling_ns = self.budget.rolling_ns
        if rolling_ns is not None:
            return self.total_start_ns(at_ns) + rolling_ns <= closed_ns
        period = self.period(at_ns)
        return period is None or period.end_ns <= closed_ns

    def is_foreign(self, currency: str) -> bool:
        """Whether money in that currency must be converted."""
        return self.money and self.budget.currency != currency

    def chosen(self) -> list[bool]:
        """Of each of a line's amounts, GPU time and then money, whether it counts."""
        counts = [index in self._chosen for index in range(len(CATEGORIES))]
        return counts + [self.money and one for one in counts]

    def gpu_ns(self, amounts: Amounts) -> int:
        """GPU time of a line that counts."""
        return sum(amounts[index] for index in self._chosen)

    def nano(self, amounts: Amounts) -> int:
        """Money of a line that counts, in the line's currency."""
        return sum(amounts[index + len(CATEGORIES)] for index in self._chosen)

    def _lengths(self) -> tuple[int, ...]:
        found = set()
        kinds = {rule.kind for rule in self.budget.rules}
        if kinds & {"burn_rate", IDLE}:
            found.add(BURN_BUCKET_NS)
        if kinds & {"forecast", "anomaly"}:
            found.add(BUCKET_NS)
        if self.budget.rolling_ns is not None:
            found.add(bucket_length_ns(self.budget.rolling_ns))
        return tuple(sorted(found))


def meters_of(budget: Budget) -> list[Meter]:
    """What counts for a budget: its meter, and where it watches what is held idle one for that alone."""
    watching = [rule for rule in budget.rules if rule.kind == IDLE]
    if not watching or list(budget.counts) == IDLE_COUNTS:
        return [Meter(budget)]
    rest = [rule for rule in budget.rules if rule.kind != IDLE]
    watch = replace(budget, counts=IDLE_COUNTS, rules=watching, thresholds_ppm=no_longs())
    return [Meter(replace(budget, rules=rest)), Meter(watch, is_watch=True)]


class Match(NamedTuple):
    """What a payer counts for: numbers of meters, and whether one of them is in another currency."""

    numbers: Longs
    foreign: bool
    driver: Driver | None


class Plan:
    """The meters of one version, found by what a charge says; their numbers are places in ``ordered``."""

    def __init__(self, version: int, active_from_ns: int, meters: Mapping[str, Meter]) -> None:
        self.version = version
        self.active_from_ns = active_from_ns
        self.meters = meters
        self.ordered = tuple(self.meters.values())
        self.chosen = np.array([meter.chosen() for meter in self.ordered], bool)
        """(meters, amounts of a line): which count."""
        self._numbers = {meter.key: number for number, meter in enumerate(self.ordered)}
        self._matches: dict[tuple[str, Payer], Match] = {}
        self._holding: dict[int, npt.NDArray[np.bool_]] = {}
        self._found: dict[tuple[str, Payer], tuple[Meter, ...]] = {}
        self._by_scope: dict[tuple[str, ...], dict[tuple[str, ...], list[Meter]]] = {}
        for meter in self.meters.values():
            said = tuple(name for name in SCOPES if name in meter.budget.scope)
            values = tuple(meter.budget.scope[name] for name in said)
            self._by_scope.setdefault(said, {}).setdefault(values, []).append(meter)

    @classmethod
    def of(cls, version: BudgetsVersion) -> Plan:
        """The meters of a version."""
        meters = {meter.key: meter for budget in version.budgets for meter in meters_of(budget)}
        return cls(version.version, version.active_from_ns, meters)

    def meters_of(self, cluster: str, payer: Payer) -> tuple[Meter, ...]:
        """Every meter whose scope a payer is in."""
        key = (cluster, payer)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= KNOWN_PAYERS:
                self._found.clear()
            says = {**payer._asdict(), "cluster": cluster}
            found = tuple(
                meter
                for said, by_values in self._by_scope.items()
                for meter in by_values.get(tuple(says[name] for name in said), ())
            )
            self._found[key] = found
        return found

    def match(self, cluster: str, payer: Payer) -> Match:
        """``meters_of`` as numbers, found once for each payer."""
        key = (cluster, payer)
        found = self._matches.get(key)
        if found is None:
            if len(self._matches) >= KNOWN_PAYERS:
                self._matches.clear()
            meters = self.meters_of(cluster, payer)
            found = self._matches[key] = Match(
                longs([self._numbers[meter.key] for meter in meters]),
                any(meter.is_foreign(payer.currency) for meter in meters),
                Driver(payer.namespace, payer.workload, payer.pod) if payer.pod or payer.workload else None,
            )
        return found

    def holding(self, start_ns: int) -> npt.NDArray[np.bool_]:
        """Of each meter whether a window that starts then counts for it."""
        found = self._holding.get(start_ns)
        if found is None:
            if len(self._holding) >= KNOWN_STARTS:
                self._holding.clear()
            found = self._holding[start_ns] = np.array(
                [m.is_effective(start_ns) and m.period(start_ns) is not None for m in self.ordered], bool
            )
        return found


class Catalog:
    """Every version of the budgets, and the rates of every version of the price book.

    A window takes the greatest version that is active at its start, and the rates that it was priced with.
    """

    def __init__(
        self, versions: Iterable[BudgetsVersion] = (), prices: Iterable[PriceBookVersion] = ()
    ) -> None:
        self._plans: dict[int, Plan] = {}
        for version in versions:  # of two with one number the first holds
            if version.version not in self._plans:
                self._plans[version.version] = Plan.of(version)
        self._none = Plan(0, 0, {})
        self._meters: dict[str, Meter | None] = {}
        self._rates: dict[int, Rates] = {}
        for book in prices:
            self._rates.setdefault(book.version, Rates(book.rates))

    def plan_at(self, at_ns: int) -> Plan:
        """The budgets that hold for a window that starts then."""
        active = [number for number, plan in self._plans.items() if plan.active_from_ns <= at_ns]
        return self._plans[max(active)] if active else self._none

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """What of the time before each version counts for what it brings."""
        return reaches_of(self._plans.values())

    @cached_property
    def brought(self) -> dict[str, Reach]:
        """By meter the reach of its total, the latest where there are several."""
        return {reach.key: reach for reach in self.reaches if reach.length_ns == TOTAL}

    def meter(self, key: str) -> Meter | None:
        """A meter of any version by its key; of what decides what it counts all versions say the same."""
        if key not in self._meters:
            held = (plan.meters[key] for plan in self._plans.values() if key in plan.meters)
            self._meters[key] = next(held, None)
        return self._meters[key]

    @property
    def newest_rates(self) -> Rates:
        """The rates of the newest version of the price book."""
        return self._rates[max(self._rates)] if self._rates else _NO_RATES

    def rates(self, price_version: int) -> Rates:
        """The rates of that version of the price book; none where it is not known."""
        return self._rates.get(price_version, _NO_RATES)
