"""What budgets look like in YAML; docs/budgets.md explains it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gpuledger.contract.columns import longs
from gpuledger.contract.money import NANO_PER_UNIT, NS_PER_HOUR
from gpuledger.contract.records import Budget, BudgetRule
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.pricing.yaml_values import (
    MAX_NANO,
    Amount,
    Currency,
    Id,
    Instant,
    Strict,
    instant_ns,
    plain_nano,
)

CATEGORIES = ("used", "held_idle", "unallocated", "unobserved")
SCOPES = ("team", "cost_centre", "namespace", "workload", "cluster", "gpu_model")
WHOLE_PPM = 1_000_000
MAX_THRESHOLD_PPM = 100 * WHOLE_PPM  # a hundred times the budget is a mistake in the units
MAX_BUDGETS = 20_000  # of a version
LONGEST_ROLLING_NS = 300 * DAY_NS
BURN_BUCKET_NS = 5 * MINUTE_NS  # spans of burn rates are counted in these
LONGEST_BURN_NS = 6 * HOUR_NS
LONGEST_IDLE_NS = DAY_NS
_SPAN = re.compile(r"([0-9]{1,5}) ?(m|h|d)")
_UNIT_NS = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}
_PERCENT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,4})?) ?%")


def span_ns(value: Any) -> int:
    """ns of ``5m``, ``6h`` or ``30d``. Raises ValueError."""
    match = _SPAN.fullmatch(str(value))
    if match is None or not int(match[1]):
        raise ValueError("must be a span such as 5m, 6h or 30d")
    return int(match[1]) * _UNIT_NS[match[2]]


def _threshold_ppm(value: Any) -> int:
    """Millionths of ``80%``."""
    match = _PERCENT.fullmatch(str(value))
    if match is None:
        raise ValueError("must be a percentage of the amount such as 80%")
    ppm = plain_nano(match[1], "a percentage such as 80%") * WHOLE_PPM // (100 * NANO_PER_UNIT)
    if not 0 < ppm <= MAX_THRESHOLD_PPM:
        raise ValueError("must be above 0% and at most 10000%")
    return ppm


def _factor_nano(value: Any) -> int:
    nano = plain_nano(value, "a factor such as 14.4")
    if not 0 < nano <= 1_000_000 * NANO_PER_UNIT:
        raise ValueError("must be a factor above 0")
    return nano


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is no time zone such as Europe/Berlin") from error
    return value


def _counts(value: Any) -> Any:
    return list(CATEGORIES) if value == "all" else [value] if isinstance(value, str) else value


Span = Annotated[int, BeforeValidator(span_ns)]
Threshold = Annotated[int, BeforeValidator(_threshold_ppm)]
Factor = Annotated[int, BeforeValidator(_factor_nano)]
Category = Literal["used", "held_idle", "unallocated", "unobserved"]


class Scope(Strict):
    """What a budget is for; all that is said must match, what is left out is any."""

    team: str = ""
    cost_centre: str = ""
    namespace: str = ""
    workload: str = ""
    cluster: str = ""
    gpu_model: str = ""


class BurnModel(Strict):
    """Burning at ``factor`` times the even pace over both spans. The short one ends it soon afterwards."""

    factor: Factor
    long: Span
    short: Span

    @model_validator(mode="after")
    def _spans(self) -> BurnModel:
        if not self.short < self.long <= LONGEST_BURN_NS:
            raise ValueError("short must be shorter than long, and long at most 6h")
        if self.short % BURN_BUCKET_NS or self.long % BURN_BUCKET_NS:
            raise ValueError("long and short are multiples of 5m")
        return self


FAST = BurnModel.model_validate({"factor": "14.4", "long": "1h", "short": "5m"})
SLOW = BurnModel.model_validate({"factor": "6", "long": "6h", "short": "30m"})


class BurnRateModel(Strict):
    """``kind: burn_rate``: fast and slow, each over two windows (Google's SRE Workbook, chapter 5)."""

    kind: Literal["burn_rate"]
    fast: BurnModel | None = FAST
    slow: BurnModel | None = SLOW
    pending: Span | None = None

    @model_validator(mode="after")
    def _one(self) -> BurnRateModel:
        if self.fast is None and self.slow is None:
            raise ValueError("leave fast or slow")
        return self

    def record(self) -> BudgetRule:
        """As it stands in a version: each speed's factor (1e-9), long and short (ns)."""
        parameters = {"pending_ns": str(self.pending or 0)}
        for name, burn in (("fast", self.fast), ("slow", self.slow)):
            if burn is not None:
                parameters[name] = f"{burn.factor} {burn.long} {burn.short}"
        return BudgetRule(self.kind, parameters)


class ForecastModel(Strict):
    """``kind: forecast``: even the low end of what is expected by the period's end reaches so much."""

    kind: Literal["forecast"]
    reaches: Threshold = WHOLE_PPM
    pending: Span | None = None

    def record(self) -> BudgetRule:
        """As it stands in a version."""
        parameters = {"pending_ns": str(self.pending or 0), "reaches_ppm": str(self.reaches)}
        return BudgetRule(self.kind, parameters)


class AnomalyModel(Strict):
    """``kind: anomaly``: the latest two hours lie so many robust deviations above the same hours of other
    days, and by so much of the amount."""

    kind: Literal["anomaly"]
    deviations: Factor = 6 * NANO_PER_UNIT
    least: Threshold = WHOLE_PPM // 100

    def record(self) -> BudgetRule:
        """As it stands in a version."""
        return BudgetRule(self.kind, {"deviations_nano": str(self.deviations), "least_ppm": str(self.least)})


class IdleModel(Strict):
    """``kind: idle``: held idle at ``at_least`` an hour or more, for ``longer_than`` without a break.

    ``at_least`` is in the budget's currency, or where it is in GPU-hours a number of GPUs.
    """

    kind: Literal["idle"]
    longer_than: Span = 2 * HOUR_NS
    at_least: Amount

    @model_validator(mode="after")
    def _span(self) -> IdleModel:
        if self.longer_than % BURN_BUCKET_NS or self.longer_than > LONGEST_IDLE_NS:
            raise ValueError("longer_than is a multiple of 5m, at most 24h")
        if not self.at_least:
            raise ValueError("at_least must be above 0, or nothing would ever be a break")
        return self

    def record(self) -> BudgetRule:
        """As it stands in a version."""
        parameters = {"longer_than_ns": str(self.longer_than), "an_hour_nano": str(self.at_least)}
        return BudgetRule(self.kind, parameters)


Rule = Annotated[BurnRateModel | ForecastModel | AnomalyModel | IdleModel, Field(discriminator="kind")]


class BudgetModel(Strict):
    """An amount for a scope and a period."""

    id: Id
    name: str = Field(default="", max_length=200)
    scope: Scope = Scope()
    period: Literal["month", "week", "day", "rolling", "fixed"]
    rolling: Span | None = None
    starts: str | None = None
    ends: str | None = None
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    amount: Amount | None = None
    currency: Currency | None = None
    gpu_hours: Amount | None = None
    thresholds: list[Threshold] = Field(default_factory=list, max_length=50)  # beside the one of 100 %
    counts: Annotated[list[Category], BeforeValidator(_counts)] = Field(
        default=["used", "held_idle"], min_length=1
    )
    rules: list[Rule] = Field(default_factory=list, max_length=10)
    effective_from: Instant = 0
    effective_to: Instant | None = None

    @model_validator(mode="after")
    def _consistent(self) -> BudgetModel:
        if (self.amount is None) == (self.gpu_hours is None):
            raise ValueError("give either amount (with currency) or gpu_hours")
        if not (self.amount or self.gpu_hours):
            raise ValueError("a budget of nothing can not be used up in part; give an amount above 0")
        if (self.amount is None) != (self.currency is None):
            raise ValueError("amount and currency belong together")
        if self.gpu_hours is not None and self.gpu_hours * NS_PER_HOUR // NANO_PER_UNIT > MAX_NANO:
            raise ValueError("gpu_hours is beyond 1.28 million")
        if (self.period == "rolling") != (self.rolling is not None):
            raise ValueError("period rolling needs its length in rolling, such as 24h; others have none")
        if self.rolling is not None and (self.rolling % HOUR_NS or self.rolling > LONGEST_ROLLING_NS):
            raise ValueError("rolling is of whole hours, at most 300d")
        if len(set(self.thresholds)) < len(self.thresholds):
            raise ValueError("a threshold is there twice")
        if len({rule.kind for rule in self.rules}) < len(self.rules):
            raise ValueError("a rule of each kind at most")
        if self.period == "rolling" and any(rule.kind == "forecast" for rule in self.rules):
            raise ValueError("a rolling period has no end, so nothing is forecast for it")
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        fixed = self.starts is not None and self.ends is not None
        if fixed != (self.period == "fixed") or (self.starts is None) != (self.ends is None):
            raise ValueError("period fixed needs starts and ends; others have none")
        if fixed and self._at(self.ends) <= self._at(self.starts):
            raise ValueError("ends is not after starts")
        return self

    def _at(self, text: str | None) -> int:
        """An instant, or midnight of a day in the budget's time zone."""
        try:
            day = date.fromisoformat(str(text))
        except ValueError:
            return _minute(instant_ns(text))
        local = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.time_zone))
        return _minute(int(local.astimezone(UTC).timestamp()) * NS_PER_S)

    def record(self) -> Budget:
        """As it stands in a version."""
        hours = self.gpu_hours
        return Budget(
            id=self.id,
            period=self.period,
            name=self.name,
            scope={name: value for name, value in self.scope.model_dump().items() if value},
            rolling_ns=self.rolling,
            fixed_from_ns=self._at(self.starts) if self.starts is not None else None,
            fixed_to_ns=self._at(self.ends) if self.ends is not None else None,
            time_zone=self.time_zone,
            amount_nano=self.amount,
            currency=self.currency or "",
            amount_gpu_ns=None if hours is None else hours * NS_PER_HOUR // NANO_PER_UNIT,
            thresholds_ppm=longs(sorted({*self.thresholds, WHOLE_PPM})),
            counts=[name for name in CATEGORIES if name in self.counts],
            rules=[rule.record() for rule in self.rules],
            effective_from_ns=self.effective_from,
            effective_to_ns=self.effective_to,
        )


class BudgetsDocument(Strict):
    """``kind: budgets``."""

    kind: Literal["budgets"]
    budgets: list[BudgetModel] = Field(max_length=MAX_BUDGETS)


def _minute(value_ns: int) -> int:
    if value_ns % MINUTE_NS:
        raise ValueError("starts and ends are whole minutes")
    return value_ns
