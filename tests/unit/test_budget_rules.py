"""Thresholds, burn rate, forecasts, rates and scopes: worked examples over the two stages."""

from __future__ import annotations

import pytest

from gpuledger.budgets import Catalog, Lives, conditions
from gpuledger.contract.records import (
    BreachNote,
    BudgetsVersion,
    CurrencyRate,
    PriceBookVersion,
)
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS
from tests.support.budget_minutes import DAY, LENGTH_NS, NANO, Fleet, fleet, version


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


def test_what_is_said_of_a_breach_without_an_end_is_for_its_life_and_no_later_one() -> None:
    one = fleet("    period: rolling\n    rolling: 2h\n    amount: 10\n    currency: USD\n")
    one.charge(0, 12)
    (first,) = one.told
    one.lives.notes.add(BreachNote(1, "acknowledged", "eve", first.id, change=first.change))
    one.lives.notes.add(BreachNote(2, "silenced", "bob", first.id, until_ns=77, change=first.change))
    one.told += one.lives.noted()
    one.lives.recall(one.told[-1])
    one.charge(200, 1)
    one.charge(400, 12)
    assert [breach.state for breach in one.told] == ["firing", "firing", "resolved", "firing"]
    assert [breach.acknowledged_by for breach in one.told] == ["", "eve", "eve", ""]
    assert one.told[-1].silenced_by == "bob"
    after_a_restart = Lives()
    for breach in one.told:
        after_a_restart.recall(breach)
    after_a_restart.notes = one.lives.notes
    assert not after_a_restart.noted()
    one.lives.notes.add(BreachNote(3, "acknowledged", "ann", first.id, change=one.told[-1].change))
    assert [breach.acknowledged_by for breach in after_a_restart.noted()] == ["ann"]


def test_a_budget_that_is_not_in_effect_yet_counts_nothing() -> None:
    one = fleet("    period: day\n    amount: 10\n    currency: USD\n    effective_from: 2030-01-01\n")
    one.charge(0, 100)
    assert not one.told
