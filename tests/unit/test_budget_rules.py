"""Thresholds, burn rate, forecasts, rates and scopes: worked examples over the two stages."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gpuledger.budgets import Catalog, Lives, PartitionCount, Sums, WindowCharges, conditions
from gpuledger.budgets.columns import states_of, subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.records import (
    Breach,
    BreachNote,
    BudgetState,
    BudgetsVersion,
    CurrencyRate,
    PriceBookVersion,
    decode,
    encode,
)
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS
from gpuledger.pricing.yaml_documents import read_documents

NANO = 10**9
DAY = 20_000 * DAY_NS
LENGTH_NS = MINUTE_NS
HEAD = "kind: budgets\nbudgets:\n  - id: b\n"


def version(text: str, number: int = 1, active_from_ns: int = 0) -> BudgetsVersion:
    (found,) = read_documents(HEAD + text, "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    found.version, found.active_from_ns = number, active_from_ns
    return found


@dataclass
class Fleet:
    """One node that is charged minute by minute, and what follows from it."""

    catalog: Catalog
    sums: Sums = field(default_factory=Sums)
    lives: Lives = field(default_factory=lambda: Lives("https://ledger/?b={budget}&from={from_ms}"))
    told: list[Breach] = field(default_factory=list)
    revision: int = 1

    def __post_init__(self) -> None:
        self.count = PartitionCount(0, self.catalog)

    def charge(self, minute: int, used: int, currency: str = "USD", price: int = 1, **says: str) -> None:
        """Spend units of money, and the same in GPU-hours, in a minute of the day."""
        said = {"team": "vision", "namespace": "ns", "workload": "train", "pod": "train-0", **says}
        centre = said.get("cost_centre", "")
        payer = Payer(
            said["team"], centre, said["namespace"], said["workload"], "H100", said["pod"], currency
        )
        amounts = (used * HOUR_NS, 0, 0, 0, used * NANO, 0, 0, 0)
        window = Window("c", "n", DAY + minute * LENGTH_NS)
        self.revision += 1
        one = WindowCharges(
            window, LENGTH_NS, self.revision, price, ((payer, amounts),), self.count.position, minute
        )
        assert not self.count.to_ask([one])
        self.count.count([one], {})
        told, self.count.changed = subtotal_of(self.count, self.count.changed), Changed()
        self.sums.absorb(told)
        self.judge()

    def judge(self) -> None:
        """Tell what follows."""
        changes = self.lives.changes(conditions(self.catalog, self.sums), self.sums, complete=True)
        for breach in changes:
            self.lives.recall(breach)
        self.told += changes

    def states(self) -> list[str]:
        return [breach.state for breach in self.told]


def fleet(text: str, *books: PriceBookVersion) -> Fleet:
    return Fleet(Catalog([version(text)], books))


def test_a_threshold_fires_at_exactly_its_amount_and_not_a_nano_before() -> None:
    one = fleet("    period: day\n    amount: 10\n    currency: USD\n")
    one.charge(0, 9)
    assert not one.told
    one.charge(1, 1)
    (breach,) = one.told
    assert (breach.state, breach.spent_nano, breach.change) == ("firing", 10 * NANO, 1)
    assert breach.since_ns == DAY + 2 * LENGTH_NS
    assert breach.link == f"https://ledger/?b=b&from={DAY // 10**6}"
    assert breach.message == "b has crossed 100% of 10.00 USD: 10.00 USD since 2024-10-04 00:00Z"


def test_a_breach_is_resolved_when_its_period_ends() -> None:
    one = fleet("    period: day\n    gpu_hours: 10\n")
    one.charge(0, 12)
    one.charge(24 * 60, 1)
    assert one.states() == ["firing", "resolved"]
    assert one.told[1].why == "the period ended"
    one.charge(24 * 60 + 1, 9)
    assert one.told[2].state == "firing"
    assert one.told[2].id != one.told[0].id


def test_a_raised_amount_resolves_and_a_restatement_retracts() -> None:
    raised = "    period: day\n    amount: 100\n    currency: USD\n"
    old = "    period: day\n    amount: 10\n    currency: USD\n"
    one = Fleet(Catalog([version(old), version(raised, 2, DAY + 60 * MINUTE_NS)]))
    one.charge(0, 12)
    one.charge(61, 1)
    assert one.states() == ["firing", "resolved"]
    assert one.told[1].why == "the budget was changed"
    other = Fleet(Catalog([version(old)]))
    other.charge(0, 12)
    other.charge(0, 2)
    assert other.states() == ["firing", "retracted"]
    other.charge(0, 11)
    assert [(b.state, b.change) for b in other.told][-1] == ("firing", 3)
    assert len({b.id for b in other.told}) == 1


def test_a_removed_budget_resolves_its_breach() -> None:
    old = version("    period: day\n    amount: 10\n    currency: USD\n")
    none = BudgetsVersion(version=2, active_from_ns=DAY + 60 * MINUTE_NS)
    one = Fleet(Catalog([old, none]))
    one.charge(0, 12)
    one.charge(61, 1)
    assert one.states() == ["firing", "resolved"]
    assert one.told[1].message.startswith("b is past 100% of 10.00 USD: 12.00 USD since")
    assert one.told[1].message.endswith("(the budget was changed)")


def test_what_is_out_of_the_scope_or_does_not_count_is_not_counted() -> None:
    one = fleet("    period: day\n    amount: 10\n    currency: USD\n    scope: {team: speech, cluster: c}\n")
    one.charge(0, 12, team="vision")
    assert not one.told
    one.charge(1, 12, team="speech")
    assert one.states() == ["firing"]
    idle = fleet("    period: day\n    amount: 10\n    currency: USD\n    counts: held_idle\n")
    idle.charge(0, 12)
    assert not idle.told


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        ({"cost_centre": "4711"}, {"cost_centre": "4712"}),
        ({"namespace": "notebooks"}, {"namespace": "batch"}),
        ({"workload": "train"}, {"workload": "serve"}),
        ({"cluster": "c"}, None),
        ({"cluster": "elsewhere"}, {}),
        ({"team": "vision", "namespace": "notebooks"}, {"namespace": "batch", "team": "vision"}),
        ({"team": "vision", "namespace": "notebooks"}, {"namespace": "notebooks", "team": "speech"}),
    ],
)
def test_each_part_of_a_scope_must_match(scope: dict[str, str], other: dict[str, str] | None) -> None:
    said = ", ".join(f'{name}: "{value}"' for name, value in scope.items())
    one = fleet(f"    scope: {{{said}}}\n    period: day\n    amount: 10\n    currency: USD\n")
    if other is not None:
        one.charge(0, 10, **other)
        assert not one.told
    if scope != {"cluster": "elsewhere"}:
        one.charge(1, 10, **{name: value for name, value in scope.items() if name != "cluster"})
        (breach,) = one.told
        assert (breach.state, breach.spent_nano, breach.scope) == ("firing", 10 * NANO, scope)


def test_money_of_another_currency_counts_at_the_rate_of_its_day() -> None:
    rates = [CurrencyRate("USD", "EUR", 0, NANO // 2), CurrencyRate("USD", "EUR", DAY + HOUR_NS, NANO // 4)]
    book = PriceBookVersion(version=1, active_from_ns=0, rates=rates)
    one = fleet("    period: day\n    amount: 10\n    currency: EUR\n", book)
    one.charge(0, 12)  # 6
    one.charge(60, 12)  # 3
    one.charge(61, 4)  # 1
    (breach,) = one.told
    assert breach.spent_nano == 10 * NANO


def test_the_rate_back_stands_in_and_what_no_rate_leads_from_is_told_apart() -> None:
    book = PriceBookVersion(version=1, active_from_ns=0, rates=[CurrencyRate("EUR", "USD", 0, 2 * NANO)])
    one = fleet("    period: day\n    amount: 10\n    currency: EUR\n", book)
    one.charge(0, 18)  # 9
    one.charge(1, 100, currency="GBP")
    assert not one.told
    (condition,) = conditions(one.catalog, one.sums)
    assert (condition.spent, condition.unconverted_nano) == (9 * NANO, 100 * NANO)


def test_a_rolling_budget_forgets_what_is_older_than_it() -> None:
    one = fleet("    period: rolling\n    rolling: 2h\n    amount: 10\n    currency: USD\n")
    one.charge(0, 6)
    one.charge(60, 6)
    assert one.states() == ["firing"]
    one.charge(130, 1)
    assert one.states() == ["firing", "resolved"]
    one.charge(131, 6)
    assert [(b.state, b.change) for b in one.told][-1] == ("firing", 3)
    assert len({b.id for b in one.told}) == 1


BURN = """    period: day
    amount: 2400
    currency: USD
    rules: [{kind: burn_rate, fast: {factor: 10, long: 1h, short: 5m}, slow: null%s}]
"""


def test_a_fast_burn_fires_when_both_spans_burn_and_is_resolved_once_it_is_over() -> None:
    one = fleet(BURN % "")  # even: 100 an hour
    for minute in range(60, 160):
        one.charge(minute, 1)  # 60 an hour
    assert not one.told
    for minute in range(160, 230):
        one.charge(minute, 20)  # 1200 an hour: 12 times the even pace
        if one.told:
            break
    first = one.told[0]
    assert (first.rule, first.speed, first.state) == ("burn_rate", "fast", "firing")
    assert first.factor_nano >= 10 * NANO
    assert minute >= 200  # the hour before counts too
    for later in range(minute + 1, minute + 15):
        one.charge(later, 1)
    assert one.states() == ["firing", "resolved"]


def test_a_slow_burn_fires_over_its_own_spans_where_the_fast_one_does_not() -> None:
    one = fleet("    period: day\n    amount: 2400\n    currency: USD\n    rules: [{kind: burn_rate}]\n")
    for minute in range(400):  # 720 an hour: 7.2 times the even pace, of which slow asks 6 and fast 14.4
        one.charge(minute, 12 if minute >= 60 else 1)
        if any(breach.rule == "burn_rate" for breach in one.told):
            break
    first = next(breach for breach in one.told if breach.rule == "burn_rate")
    assert (first.speed, first.state) == ("slow", "firing")
    assert 6 * NANO <= first.factor_nano < 7 * NANO
    assert minute >= 60 + 6 * 60 * 6 // 8  # most of six hours
    for later in range(minute + 1, minute + 45):
        one.charge(later, 1)
    assert [breach.state for breach in one.told if breach.speed == "slow"] == ["firing", "resolved"]
    assert all(breach.speed != "fast" for breach in one.told)


def test_a_short_burst_is_pending_and_then_retracted() -> None:
    one = fleet(BURN % ", pending: 20m")
    one.charge(0, 500)
    one.charge(1, 600)
    assert one.states() == ["pending"]
    for minute in range(2, 20):
        one.charge(minute, 1)
    assert one.states() == ["pending", "retracted"]


def test_a_burn_that_stays_fires_after_its_pending_time() -> None:
    one = fleet(BURN % ", pending: 20m")
    for minute in range(60):
        one.charge(minute, 30)
    burning = [breach for breach in one.told if breach.rule == "burn_rate"]
    assert [breach.state for breach in burning] == ["pending", "firing"]
    assert burning[1].since_ns == burning[0].since_ns
    assert burning[1].at_ns - burning[0].at_ns >= 20 * MINUTE_NS


def test_a_forecast_lies_between_the_periods_pace_and_the_recent_one() -> None:
    text = BURN % "" + "    thresholds: [5%]\n"
    one = fleet(text)
    for minute in range(0, 12 * 60, 10):
        one.charge(minute, 3)
    (breach,) = [b for b in one.told if b.rule == "threshold"]
    assert breach.forecast_low_ns is not None
    assert breach.forecast_high_ns is not None
    pace = 3 * NANO / (10 * MINUTE_NS)
    exhausted_ns = DAY + 2400 * NANO / pace
    assert breach.forecast_low_ns <= breach.forecast_high_ns
    assert breach.forecast_high_ns == pytest.approx(exhausted_ns, rel=0.001)


def test_what_is_spent_beyond_what_a_record_holds_is_told_as_the_greatest_it_holds() -> None:
    """2.56 million GPU-hours, eleven days of 10,000 GPUs; a budget of money counts them beside it."""
    one = fleet(
        "    period: fixed\n    starts: 2020-01-01\n    ends: 2100-01-01\n    amount: 4000000\n"
        "    currency: USD\n    thresholds: [1%, 100%]\n"
    )
    for minute in range(40):
        one.charge(minute, 100_000)
    assert [decode(Breach, encode(breach)) for breach in one.told] == one.told
    assert [breach.spent_nano for breach in one.told] == [100_000 * NANO, 4_000_000 * NANO]
    assert [breach.spent_gpu_ns for breach in one.told] == [100_000 * HOUR_NS, 2**63 - 1]
    assert [breach.drivers[0].gpu_ns for breach in one.told] == [100_000 * HOUR_NS, 2**63 - 1]
    (state,) = states_of(one.count, 0)
    (gpu_ns,) = decode(BudgetState, encode(state)).subtotal.gpu_ns.tolist()
    assert gpu_ns == 2**63 - 1


SLOW = """\
    period: fixed
    starts: 2020-01-01
    ends: 2100-01-01
    amount: %d
    currency: USD
    thresholds: [0.0001%%]
"""


@pytest.mark.parametrize(
    ("amount", "is_told"), [(4_000_000_000, False), (2_000_000, False), (500_000, False), (100_000, True)],
    ids=["no-date-holds-it", "no-record-holds-it", "no-price-does", "told"],
)  # fmt: skip
def test_an_amount_that_lasts_for_centuries_has_no_forecast(amount: int, is_told: bool) -> None:
    one = fleet(SLOW % amount)
    one.charge(0, 9_100)
    (breach, *_) = one.told
    assert decode(Breach, encode(breach)) == breach
    assert (breach.forecast_low_ns is not None) == (breach.forecast_high_ns is not None) == is_told
    assert ("used up" in breach.message) == is_told


def test_the_five_largest_workloads_and_pods_are_named() -> None:
    one = fleet("    period: day\n    amount: 100\n    currency: USD\n")
    for number in range(8):
        one.charge(number, number + 10, pod=f"p-{number}", workload=f"w-{number % 2}")
    (breach,) = one.told
    assert [(d.kind, d.name) for d in breach.drivers] == [
        ("workload", "w-1"),
        ("workload", "w-0"),
        *(("pod", f"p-{number}") for number in (7, 6, 5, 4, 3)),
    ]


def test_what_people_say_is_a_change_that_keeps_the_state() -> None:
    one = fleet("    period: day\n    amount: 10\n    currency: USD\n")
    one.charge(0, 12)
    breach_id = one.told[0].id
    one.lives.notes.add(BreachNote(1, "acknowledged", "eve", breach_id))
    one.lives.notes.add(BreachNote(2, "silenced", "bob", "", "b", until_ns=77))
    (said,) = one.lives.noted()
    assert (said.state, said.change, said.acknowledged_by) == ("firing", 2, "eve")
    assert (said.silenced_by, said.silenced_until_ns) == ("bob", 77)
    one.lives.recall(said)
    assert not one.lives.noted()
    one.lives.notes.add(BreachNote(3, "cleared", "eve", breach_id))
    (cleared,) = one.lives.noted()
    assert (cleared.acknowledged_by, cleared.silenced_by) == ("", "bob")


def test_a_budget_that_is_not_in_effect_yet_counts_nothing() -> None:
    one = fleet("    period: day\n    amount: 10\n    currency: USD\n    effective_from: 2030-01-01\n")
    one.charge(0, 100)
    assert not one.told
