"""A team that holds GPUs idle for five minutes at a time, under one budget with the rule ``idle``."""

from __future__ import annotations

from gpuledger.budgets import Catalog, Lives, PartitionCount, Sums, WindowCharges, conditions
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.records import Breach, BudgetsVersion
from gpuledger.contract.windows import DAY_NS, MINUTE_NS
from gpuledger.pricing.yaml_documents import read_documents

NANO = 10**9
DAY = 20_000 * DAY_NS
LENGTH_NS = 5 * MINUTE_NS
RULE = "    rules: [{kind: idle, longer_than: %s, at_least: 12}]\n"
MONEY = "    amount: 1000000\n    currency: USD\n"


class Team:
    """One node that is charged five minutes at a time, and what follows from it."""

    def __init__(self, text: str, longer_than: str = "1h") -> None:
        document = f"kind: budgets\nbudgets:\n  - id: b\n{text}{RULE % longer_than}"
        (found,) = read_documents(document, "budgets.yaml")
        assert isinstance(found, BudgetsVersion)
        found.version, found.active_from_ns = 1, 0
        self.catalog = Catalog([found])
        self.count, self.sums, self.lives = PartitionCount(0, self.catalog), Sums(), Lives()
        self.told: list[Breach] = []
        self.revision = 0

    def holds(self, windows: range, idle: float, used: float = 0, node: str = "n") -> None:
        """Hold so much idle in each window: units of money, and as many GPUs for all of it."""
        for number in windows:
            payer = Payer("vision", "", "ns", "train", "H100", "train-0", "USD")
            amounts = (int(used * LENGTH_NS), int(idle * LENGTH_NS), 0, 0)
            money = (int(used * NANO), int(idle * NANO), 0, 0)
            self.revision += 1
            window, lines = Window("c", node, DAY + number * LENGTH_NS), ((payer, amounts + money),)
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
