"""The rule for money held idle: worked examples over the two stages."""

from __future__ import annotations

from gpuledger.budgets import Catalog, Lives, PartitionCount, Sums, WindowCharges, conditions
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.records import Breach, BudgetsVersion
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS
from gpuledger.pricing.yaml_documents import read_documents

NANO = 10**9
DAY = 20_000 * DAY_NS
LENGTH_NS = 5 * MINUTE_NS
RULE = "    rules: [{kind: idle, longer_than: 1h, at_least: 12}]\n"
MONEY = "    amount: 1000000\n    currency: USD\n"


class Team:
    """One node that is charged five minutes at a time, and what follows from it."""

    def __init__(self, text: str) -> None:
        (found,) = read_documents(f"kind: budgets\nbudgets:\n  - id: b\n{text}{RULE}", "budgets.yaml")
        assert isinstance(found, BudgetsVersion)
        found.version, found.active_from_ns = 1, 0
        self.catalog = Catalog([found])
        self.count, self.sums, self.lives = PartitionCount(0, self.catalog), Sums(), Lives()
        self.told: list[Breach] = []
        self.revision = 0

    def holds(self, windows: range, idle: float, used: float = 0) -> None:
        """Hold so much idle in each window: units of money, and as many GPUs for all of it."""
        for number in windows:
            payer = Payer("vision", "", "ns", "train", "H100", "train-0", "USD")
            amounts = (int(used * LENGTH_NS), int(idle * LENGTH_NS), 0, 0)
            money = (int(used * NANO), int(idle * NANO), 0, 0)
            self.revision += 1
            window, lines = Window("c", "n", DAY + number * LENGTH_NS), ((payer, amounts + money),)
            one = WindowCharges(window, LENGTH_NS, self.revision, 1, lines, self.count.position, number)
            assert not self.count.to_ask([one])
            self.count.count([one], {})
            told, self.count.changed = subtotal_of(self.count, self.count.changed), Changed()
            self.sums.absorb(told)
            changes = self.lives.changes(conditions(self.catalog, self.sums), self.sums, complete=True)
            for breach in changes:
                self.lives.recall(breach)
            self.told += changes

    def states(self) -> list[str]:
        return [breach.state for breach in self.told]


def test_it_is_pending_from_half_its_time_and_fires_once_all_of_it_has_passed() -> None:
    team = Team("    period: month\n" + MONEY)
    team.holds(range(6), idle=1)
    assert team.states() == []  # the sixth bucket may still lack charges
    team.holds(range(6, 7), idle=1)
    assert team.states() == ["pending"]
    team.holds(range(7, 12), idle=1)
    assert team.states() == ["pending"]
    team.holds(range(12, 20), idle=1)
    assert team.states() == ["pending", "firing"]
    firing = team.told[-1]
    assert (firing.rule, firing.spent_nano, firing.period_start_ns) == ("idle", 12 * NANO, DAY)
    assert "12.00 USD held idle in 1 h 0 min without a break" in firing.message
    assert [(driver.kind, driver.name) for driver in firing.drivers] == [
        ("workload", "train"),
        ("pod", "train-0"),
    ]
    assert firing.forecast_low_ns is None


def test_a_bucket_of_less_is_a_break_and_resolves_it() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(14), idle=1)
    team.holds(range(14, 15), idle=0.999)
    team.holds(range(15, 16), idle=1)
    assert team.states() == ["pending", "firing", "resolved"]
    team.holds(range(16, 28), idle=1)
    assert team.states() == ["pending", "firing", "resolved", "pending", "firing"]
    assert len({breach.id for breach in team.told}) == 1


def test_a_restated_break_in_what_was_told_retracts_it() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(14), idle=1)
    team.holds(range(11, 12), idle=0, used=1)
    assert team.states() == ["pending", "firing", "retracted"]


def test_what_is_used_is_never_idle_though_the_budget_counts_it() -> None:
    team = Team("    period: day\n" + MONEY + "    counts: [used, held_idle]\n")
    team.holds(range(20), idle=0.5, used=5)
    assert team.states() == []


def test_of_a_budget_in_gpu_hours_the_rate_is_a_number_of_gpus() -> None:
    team = Team("    period: rolling\n    rolling: 24h\n    gpu_hours: 1000\n    counts: held_idle\n")
    team.holds(range(14), idle=12)
    team.holds(range(14, 16), idle=11.9)
    assert team.states() == ["pending", "firing", "resolved"]
    assert team.told[1].spent_gpu_ns == 12 * HOUR_NS


def test_the_scope_of_the_budget_is_that_of_its_rule() -> None:
    team = Team("    period: day\n    scope: {team: speech}\n" + MONEY)
    team.holds(range(20), idle=5)
    assert team.states() == []


def test_it_goes_on_where_a_period_ends() -> None:
    team = Team("    period: day\n" + MONEY)
    day = DAY_NS // LENGTH_NS
    team.holds(range(day - 7, day + 20), idle=1)
    assert team.states() == ["pending", "firing"]
