"""A node that is charged by the minute under one budget, through both stages."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.budgets import Catalog, Lives, PartitionCount, Sums, WindowCharges, conditions
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.records import (
    Breach,
    BudgetsVersion,
    PriceBookVersion,
)
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS
from gpuledger.pricing.yaml_documents import read_documents

NANO = 10**9
DAY = 20_000 * DAY_NS
LENGTH_NS = MINUTE_NS
HEAD = "kind: budgets\nbudgets:\n  - id: b\n"


def version(text: str, number: int = 1, active_from_ns: int = 0) -> BudgetsVersion:
    """A version of the one budget that the text is of."""
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
        """Of what was told, in order."""
        return [breach.state for breach in self.told]


def fleet(text: str, *books: PriceBookVersion) -> Fleet:
    """A node under one budget."""
    return Fleet(Catalog([version(text)], books))
