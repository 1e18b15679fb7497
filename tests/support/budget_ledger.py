"""The budgets of random histories, and what a simple reference finds for them in the final ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuledger.budgets import (
    Catalog,
    Judge,
    Lines,
    Lives,
    PartitionCount,
    Sums,
    Window,
    WindowCharges,
    conditions,
)
from gpuledger.budgets.columns import subtotal_of
from gpuledger.contract.columns import longs
from gpuledger.contract.records import Budget, BudgetRule, BudgetsVersion, CurrencyRate, PriceBookVersion
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S

NANO = 10**9
WINDOW_NS = 300 * NS_PER_S  # not a length of the product's, so that each is a bucket of its own
START_NS = 20_000 * DAY_NS - 6 * WINDOW_NS  # a day ends in the middle of the shortest history
CHANGED_NS = START_NS + 4 * WINDOW_NS  # from when on the second version of the budgets holds
ROLLING_NS = 8 * WINDOW_NS
IDLE_WINDOWS, IDLE_NANO = 3, 60  # held idle for longer than so many windows at so much or more in each
FORGIVEN_WINDOWS = 6  # after which a break is believed
LONG_NS, SHORT_NS, FACTOR = 8 * WINDOW_NS, 2 * WINDOW_NS, 3
BURN_AMOUNT = 15_000
PERIODS = {"day": DAY_NS, "week": 7 * DAY_NS}
FIRST_MONDAY_NS = 4 * DAY_NS  # 1970-01-05
SOON_NS, LATER_NS, LATE_NS = 3 * WINDOW_NS, 5 * WINDOW_NS, 2 * DAY_NS
RATES = {  # dollars for a euro, by version of the price book and from when on
    1: [(0, Fraction(11, 10)), (START_NS + SOON_NS, Fraction(13, 10)), (START_NS + LATE_NS, Fraction(1))],
    2: [(0, Fraction(9, 10)), (START_NS + LATER_NS, Fraction(2)), (START_NS + LATE_NS, Fraction(7, 10))],
}
BOOKS = [
    PriceBookVersion(
        version=version,
        active_from_ns=0,
        rates=[CurrencyRate("EUR", "USD", at, int(rate * NANO)) for at, rate in dated],
    )
    for version, dated in RATES.items()
]


def budget(name: str, team: str, amount: int, **more: object) -> Budget:
    """A budget of a day, in units of money that are small enough to read."""
    fields: dict[str, object] = {
        "period": "day",
        "scope": {"team": team} if team else {},
        "amount_nano": amount,
        "currency": "USD",
        "thresholds_ppm": longs([500_000, 1_000_000]),
        "counts": ["used", "held_idle"],
    }
    return Budget(id=name, **{**fields, **more})  # type: ignore[arg-type]


def ruled(name: str, kind: str, amount: int, parameters: dict[str, str], **more: object) -> Budget:
    """A budget of everything that is looked at by one rule alone."""
    return budget(name, "", amount, thresholds_ppm=longs([]), rules=[BudgetRule(kind, parameters)], **more)


BURN = {"fast": f"{FACTOR * NANO} {LONG_NS} {SHORT_NS}", "pending_ns": "0"}
AHEAD = {"reaches_ppm": "1000000", "pending_ns": "0"}
SUDDEN = {"deviations_nano": str(NANO // 2), "least_ppm": "1"}
KEPT = (  # in both versions
    budget("speech", "speech", 400),
    budget("all", "", 1500, counts=["used"]),
    budget("rolling", "", 300, period="rolling", rolling_ns=ROLLING_NS),
    budget("time", "vision", 0, amount_nano=None, currency="", amount_gpu_ns=700),
    ruled("burn", "burn_rate", BURN_AMOUNT, BURN),
    ruled("forecast", "forecast", 6_000, AHEAD, period="month"),
    ruled("anomaly", "anomaly", 6_000, SUDDEN, period="month"),
)
IDLE_RULE = BudgetRule(
    "idle",
    {
        "longer_than_ns": str(IDLE_WINDOWS * WINDOW_NS),
        "an_hour_nano": str(IDLE_NANO * HOUR_NS // WINDOW_NS),
    },
)
IDLE_BUDGETS = (
    budget("idle-vision", "vision", 10**9, counts=["used"], rules=[IDLE_RULE]),
    budget("idle-speech", "speech", 10**9, counts=["held_idle"], rules=[IDLE_RULE]),
)
FIRST = (
    budget("vision", "vision", 900),
    budget("moved", "vision", 500),
    budget("gone", "speech", 100),
    budget("longer", "speech", 600),
    budget("watched", "vision", 10**9, counts=["used"]),
)
THEN = (
    budget("vision", "vision", 1_100),
    budget("moved", "speech", 500),
    budget("new", "", 800),
    budget("new-time", "speech", 0, amount_nano=None, currency="", amount_gpu_ns=500),
    budget("longer", "speech", 1_500, period="week"),
    budget("new-rolling", "vision", 200, period="rolling", rolling_ns=ROLLING_NS),
)
NEW_WATCH = budget("watched", "vision", 10**9, counts=["used"], rules=[IDLE_RULE])
MOVING = {"rolling", "new-rolling"}
CHANGED = {"vision", "moved", "gone", "new", "new-time", "longer", "new-rolling"}
_VERSIONS = [
    BudgetsVersion(version=1, active_from_ns=0, budgets=[*KEPT, *IDLE_BUDGETS, *FIRST]),
    BudgetsVersion(version=2, active_from_ns=CHANGED_NS, budgets=[*KEPT, *IDLE_BUDGETS, *THEN, NEW_WATCH]),
]
BEFORE = Catalog(_VERSIONS[:1], BOOKS)
CATALOG = Catalog(_VERSIONS, BOOKS)


@dataclass(frozen=True)
class Charged:
    """What a revision of a window says."""

    price_version: int
    lines: Lines


Ledger = Mapping[Window, Charged]


def money(one: Budget, window: Window, charged: Charged) -> int:
    """What a window counts for a budget, in the unit of its amount; the simple way."""
    by_currency: dict[str, int] = defaultdict(int)
    first = 0 if one.amount_nano is None else 4
    for payer, amounts in charged.lines:
        if one.scope.get("team", payer.team) == payer.team:
            by_currency[payer.currency] += amounts[first] if "used" in one.counts else 0
            by_currency[payer.currency] += amounts[first + 1] if "held_idle" in one.counts else 0
    if one.amount_nano is None:
        return sum(by_currency.values())
    rate = [rate for at, rate in RATES[charged.price_version] if at <= window.start_ns][-1]
    return by_currency["USD"] + round(by_currency["EUR"] * rate)


def reference(ledger: Ledger, now_ns: int) -> dict[tuple[str, int, int], bool]:
    """(budget, start of its day or 0, threshold) to whether the line is crossed, over the final ledger."""
    found = {}
    for one in (*KEPT, *THEN):
        spent: dict[int, int] = defaultdict(int)
        for window, charged in ledger.items():
            if one.period in PERIODS:
                spent[period_start_ns(one, window.start_ns)] += money(one, window, charged)
            elif one.period == "rolling" and window.start_ns >= now_ns - ROLLING_NS:
                spent[0] += money(one, window, charged)
        whole = one.amount_nano if one.amount_nano is not None else one.amount_gpu_ns or 0
        for start_ns, amount in spent.items():
            for ppm in one.thresholds_ppm.tolist():
                found[one.id, start_ns, ppm] = amount * 1_000_000 >= whole * ppm
    return found


def period_start_ns(one: Budget, at_ns: int) -> int:
    """Start of the day or week (from Monday) that an instant lies in, in UTC."""
    first_ns = 0 if one.period == "day" else FIRST_MONDAY_NS
    return at_ns - (at_ns - first_ns) % PERIODS[one.period]


def idle_windows(ledger: Ledger, team: str, now_ns: int) -> int:
    """For how many windows a team held so much idle without a break: the most of what goes on, or ended no
    longer ago than a break is forgiven, up to the newest window that is judged."""
    one = budget("", team, 1, counts=["held_idle"])
    amounts: dict[int, int] = defaultdict(int)
    for window, charged in ledger.items():
        amounts[window.start_ns] += money(one, window, charged)
    return max(_idle_up_to(amounts, now_ns - (2 + ago) * WINDOW_NS) for ago in range(FORGIVEN_WINDOWS + 1))


def _idle_up_to(amounts: Mapping[int, int], start_ns: int) -> int:
    found = 0
    while amounts.get(start_ns, 0) >= IDLE_NANO:
        start_ns, found = start_ns - WINDOW_NS, found + 1
    return found


def burns(ledger: Ledger, now_ns: int) -> bool:
    """Whether all that is spent runs at FACTOR times the even pace of a day, over both spans."""
    one = next(one for one in KEPT if one.id == "burn")
    for span_ns in (LONG_NS, SHORT_NS):
        spent = sum(money(one, w, c) for w, c in ledger.items() if now_ns - span_ns <= w.start_ns < now_ns)
        if Fraction(spent, span_ns) < FACTOR * Fraction(BURN_AMOUNT, DAY_NS):
            return False
    return True


def of_history(ledger: Ledger) -> dict[str, bool]:
    """Whether the rules that look back hold, where each window is read once, in order, without a fault."""
    count, judge = PartitionCount(0, CATALOG), Judge(Sums(), Lives())
    for offset, (window, charged) in enumerate(sorted(ledger.items(), key=lambda item: item[0].start_ns)):
        record = WindowCharges(window, WINDOW_NS, 1, charged.price_version, charged.lines, offset, offset)
        count.count([record], {})
    judge.absorb(subtotal_of(count, count.changed))
    return {
        condition.meter.budget.id: condition.holds
        for condition in conditions(CATALOG, judge.sums)
        if condition.rule in ("forecast", "anomaly")
    }


def starts_of(days: int) -> Iterator[int]:
    """Starts of the windows of a history of so many days."""
    if days == 1:
        yield from (START_NS + number * WINDOW_NS for number in range(12))
        return
    for day in range(days):
        yield from (START_NS + day * DAY_NS + number * WINDOW_NS for number in range(max(2, 16 // days)))
