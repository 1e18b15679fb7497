"""The second stage's core: what has been told by all partitions, and the changes of breaches that follow."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.conditions import conditions
from gpuledger.budgets.lives import Lives
from gpuledger.budgets.sums import Sums, Touched
from gpuledger.contract.records import Breach, BudgetSubtotal


class Judge:
    """Looks at those budgets again of which something changed. Whoever holds it tells what it finds."""

    def __init__(self, sums: Sums, lives: Lives) -> None:
        self.sums = sums
        self.lives = lives
        self._touched: Touched = set()
        self._judged_ns = -1
        self._catalog: Catalog | None = None

    def absorb(self, told: BudgetSubtotal) -> None:
        """Take a subtotal in."""
        self._touched |= self.sums.absorb(told)

    def changes(self, catalog: Catalog) -> list[Breach]:
        """Every change that follows; ``told`` must be called with them once they are told.

        While the budgets are the same, of periods that are over those alone are looked at that were touched;
        while no newer window came, the touched meters alone.
        """
        same = catalog is self._catalog
        complete = self.sums.newest_end_ns != self._judged_ns or not same
        if not complete and not self._touched:
            return []
        found = conditions(catalog, self.sums, self._touched if same else None, self._judged_ns)
        changes = self.lives.changes(found, self.sums, complete)
        self._judged_ns, self._catalog = self.sums.newest_end_ns, catalog
        self._touched = set()
        if complete:
            self.sums.forget(catalog)  # not before: what was told last of a period may have come with its end
        return changes

    def told(self, changes: Iterable[Breach]) -> None:
        """Know what is told."""
        for breach in changes:
            self.lives.recall(breach)
