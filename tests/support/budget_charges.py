"""The charges of a random history: gpu.charges, what the warehouse has of it, and what the ledger says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gpuledger.budgets import PartitionCount, Replaced, WindowCharges
from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.lines import Lines, Payer, Window
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_ledger import CATALOG, WINDOW_NS, Charged, starts_of

RESTATED_NS = 8 * DAY_NS  # how far back a processor writes windows anew
NODES = ("a", "b", "c")
PARTITIONS = 2
TEAMS = ("vision", "speech")


@dataclass
class Log:
    """A partition of gpu.charges."""

    records: list[WindowCharges] = field(default_factory=list)
    now_ms: int = 1

    def append(self, window: Window, revision: int, charged: Charged, later_ms: int) -> None:
        """One more record."""
        self.now_ms += later_ms
        offset = len(self.records)
        self.records.append(
            WindowCharges(
                window, WINDOW_NS, revision, charged.price_version, charged.lines, offset, self.now_ms
            )
        )


class Charges:
    """``restates``: how often, in percent, a window is written once more. The warehouse is ahead of everybody
    and knows when a revision came first."""

    def __init__(self, seed: int, restates: int, days: int) -> None:
        self.random = random.Random(seed)
        self._restates, self._days = restates, days
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.content: dict[tuple[Window, int], Charged] = {}

    def write(self) -> None:
        """All windows in their order, with what is sent again, late, or otherwise than before, between."""
        starts = list(starts_of(self._days))
        for number, start_ns in enumerate(starts):
            for index, node in enumerate(NODES):
                window = Window("c", node, start_ns)
                if self._chance(90):
                    self._append(index % PARTITIONS, window)
                while self._chance(self._restates):
                    earlier_ns = starts[self.random.randrange(number + 1)]
                    if earlier_ns > start_ns - RESTATED_NS:
                        self._append(index % PARTITIONS, window._replace(start_ns=earlier_ns))

    def _append(self, partition: int, window: Window) -> None:
        known = [revision for at, revision in self.content if at == window]
        if known and self._chance(40):
            revision = max(known)  # once more, as after a restart, or as a spool that was thought lost
        else:
            revision = max(known, default=0) + 1
            self.content[window, revision] = Charged(self.random.choice((1, 2)), self._lines())
        later = self.random.choice((1, 1_000, 70_000, 200_000))
        self.logs[partition].append(window, revision, self.content[window, revision], later)

    def _lines(self) -> Lines:
        if self._chance(10):
            return ()
        lines = []
        for team in TEAMS:
            currency = self.random.choice(("USD", "USD", "EUR", "JPY"))  # no rate leads from the last
            payer = Payer(team, "", "ns", f"{team}-train", "H100", f"{team}-0", currency)
            lines.append((payer, tuple(self.random.randrange(60) for _ in range(8))))
        return tuple(sorted(lines))

    def ledger(self) -> dict[Window, Charged]:
        """The greatest revision of each window."""
        best = {}
        for (window, _), charged in sorted(self.content.items(), key=lambda item: item[0]):
            best[window] = charged
        return best

    def _base(self, number: int, begun: Round, before_ms: int) -> Sheet:
        """What all windows counted when the round began, as the warehouse and the tail have it."""
        base = Sheet()
        first: dict[tuple[Window, int], int] = {}
        for record in self.logs[number].records:
            first.setdefault((record.window, record.revision), record.append_ms)
        came: dict[Window, int] = {}
        for (window, revision), append_ms in first.items():
            if append_ms < before_ms:
                came[window] = max(revision, came.get(window, 0))
        for one in begun.tail:
            came.pop(one.window, None)
            begun.fill(CATALOG, base, one.window, one.window.start_ns + WINDOW_NS, one)
        for window, revision in came.items():
            known = self.content[window, revision]
            begun.fill(CATALOG, base, window, window.start_ns + WINDOW_NS, known)
        return base

    def _asked(
        self, count: PartitionCount, number: int, window: Window, counted: int | None
    ) -> Replaced | None:
        if counted is None:
            first: dict[int, int] = {}
            for record in self.logs[number].records:
                if record.window == window:
                    first.setdefault(record.revision, record.append_ms)
            came = [revision for revision, ms in first.items() if ms < count.counters.tail_start_ms]
            if not came:
                return None
            counted = max(came)
        charged = self.content[window, counted]
        return Replaced(counted, charged.price_version, charged.lines)

    def _chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent
