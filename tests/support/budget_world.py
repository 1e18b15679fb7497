"""A ledger in memory under random faults, and the budgets core driven over it.

Every part may crash between any two of its steps: it loses what it holds, and goes on from what was written,
as the application does; its records come from the offset that was acknowledged on. An owner that was
replaced may go on for a while: what it tells is taken in, its state and its breaches are fenced. One
partition may be read far ahead of the other. The warehouse is ahead of everybody and knows when a revision
came first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gpuledger.budgets import Catalog, Judge, Lives, PartitionCount, Replaced, Sums, WindowCharges
from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.backfilling import all_of, begin, merge
from gpuledger.budgets.columns import counters_of, newest, states_of, subtotal_of
from gpuledger.budgets.counters import Changed, Counters
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.records import Breach, BudgetState, BudgetSubtotal, decode, encode
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_ledger import BEFORE, CATALOG, CHANGED_NS, WINDOW_NS, Charged, Lines, starts_of

KNOWN_WINDOWS = 5  # so that a history goes beyond
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


@dataclass
class Owner:
    """Who counts a partition: what it holds, and the next record that Kafka gives it."""

    count: PartitionCount
    next_offset: int


class World:
    """One history. ``restates`` and ``crashes`` are how often, in percent; ``lingers``, whether an owner may
    go on after it was replaced."""

    def __init__(self, seed: int, restates: int, crashes: int, days: int = 1, lingers: bool = True) -> None:
        self.random = random.Random(seed)
        self._restates, self._crashes, self._days = restates, crashes, days
        self._lingers = lingers and crashes > 0
        self._behind_others = self.random.choice((None, *range(PARTITIONS)))
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.content: dict[tuple[Window, int], Charged] = {}
        self.subtotals: list[BudgetSubtotal] = []
        self.states: list[BudgetState] = []
        self.acknowledged: dict[int, int] = {}
        self.breaches: list[Breach] = []
        self.zombie_steps = 0
        self.backfilled = 0
        self._owners: dict[int, Owner] = {}
        self._zombies: list[tuple[int, Owner]] = []
        self._second: tuple[Judge, int] | None = None

    # the ledger

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

    # the application

    def run(self) -> None:
        """Let both stages work until nothing is left, crashing on the way."""
        while self._behind() or self._second is None or self._second[1] < len(self.subtotals):
            stage = self.random.randrange(PARTITIONS + 1)
            if stage == self._behind_others and self._chance(97) and self._others_are_behind(stage):
                continue
            if stage < PARTITIONS:
                self._first(stage)
            else:
                self._judge()
        self._judge()
        while self._second is None:
            self._judge()

    def _others_are_behind(self, stage: int) -> bool:
        return any(number != stage and self._is_behind(number) for number in range(PARTITIONS))

    def _behind(self) -> bool:
        return any(self._is_behind(number) for number in range(PARTITIONS))

    def _is_behind(self, number: int) -> bool:
        owner = self._owners.get(number)
        if owner is None:
            return True
        count = owner.count
        if owner.next_offset < len(self.logs[number].records) or count.changed.totals:
            return True
        news = count.catalog is BEFORE or count.backfill.lacking(count.counters.newest_end_ns)
        return count.position > 0 and bool(news or count.counters.untold)

    def _crash(self) -> bool:
        return self._chance(self._crashes)

    def _first(self, number: int) -> None:
        """One round of the owner of a partition, and one of an owner that does not know yet it is none."""
        owner = self._owners.get(number)
        if owner is None:
            owner = self._owners[number] = self._take_over(number)
        elif self._lingers and self._chance(3):
            self._zombies.append((number, owner))
            owner = self._owners[number] = self._take_over(number)
        alive = self._count(number, owner)
        if alive and self._chance(80):
            alive = self._backfill(number, owner)
        if alive and owner.count.may_be_kept and self._chance(30):
            alive = self._keep(number, owner)
        if not alive:
            del self._owners[number]
        if self._zombies and self._chance(50):
            self._count(*self._zombies[0])
            self.zombie_steps += 1
            if self._chance(30):
                self._zombies.pop(0)

    def _count(self, number: int, owner: Owner) -> bool:
        """Count some records and tell it. False: crashed."""
        count = owner.count
        given = self.logs[number].records[owner.next_offset :][: self.random.randrange(1, 6)]
        owner.next_offset += len(given)
        records = [record for record in given if record.offset >= count.position]
        if self._chance(20) or any(one.window.start_ns >= CHANGED_NS for one in records):
            count.catalog = CATALOG  # a version is known before the first window for which it holds
        replaced = {w: self._asked(count, number, w, known) for w, known in count.to_ask(records).items()}
        known = {window: one for window, one in replaced.items() if one is not None}
        count.count(records, known)
        if self._crash():
            return False
        if count.changed.totals or records:
            told, count.changed = subtotal_of(count, count.changed), Changed()
            self.subtotals.append(decode(BudgetSubtotal, encode(told)))
        self._counted(number, owner)
        return not self._crash()

    def _backfill(self, number: int, owner: Owner) -> bool:
        """Begin to make up for the time before the second version, or end it. False: crashed."""
        count = owner.count
        if count.counters.untold:
            told = subtotal_of(count, all_of(count, count.counters.untold))
            self.subtotals.append(decode(BudgetSubtotal, encode(told)))
            count.counters.untold.clear()
        begun = count.backfill.round
        if begun is None:
            begin(count)
        elif begun.before_ms is not None and count.may_be_kept:
            merge(count, self._base(number, begun, begun.before_ms))
            self.backfilled += 1
            return self._keep(number, owner)
        return True

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

    def _counted(self, number: int, owner: Owner) -> None:
        """All is told; nothing is acknowledged before the state is written."""

    def _keep(self, number: int, owner: Owner) -> bool:
        """Write the state, then acknowledge what it has. False: crashed between."""
        states = states_of(owner.count, len(self.subtotals))
        self.states += [decode(BudgetState, encode(state)) for state in states]
        if self._crash():
            return False
        self.acknowledged[number] = owner.count.position
        return True

    def _take_over(self, number: int) -> Owner:
        versions = [told.version for told in self.subtotals if told.partition == number]
        states = newest(self.states).get(number)
        if states is None:
            count = PartitionCount(number, self.random.choice((BEFORE, CATALOG)))
        else:
            counters, position = counters_of(states)
            count = PartitionCount(number, self._known(counters), counters, position)
            for record in self.logs[number].records[states[0].tail_offset : position]:
                count.recall(record)
        count.told_version = max(versions, default=0)
        return Owner(count, self.acknowledged.get(number, 0))

    def _known(self, counters: Counters) -> Catalog:
        """The versions that a new owner finds: both where the one before may have counted by them."""
        may_be_new = counters.newest_end_ns < CHANGED_NS and not counters.backfilled
        return self.random.choice((BEFORE, CATALOG)) if may_be_new else CATALOG

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

    def _judge(self) -> None:
        if self._second is None:
            judge, end = self._take_breaches_over(), len(self.subtotals)
        else:
            judge, first = self._second
            end = min(len(self.subtotals), first + self.random.randrange(1, 9))
            for told in self.subtotals[first:end]:
                judge.absorb(told)
        changes = judge.changes(CATALOG)
        self._second = None
        if self._crash():
            return
        self.breaches += changes
        if self._crash():
            return
        judge.told(changes)
        self._second = (judge, end)

    def _take_breaches_over(self) -> Judge:
        judge = Judge(Sums(PARTITIONS), Lives())
        states = newest(self.states)
        for parts in states.values():
            for state in parts:
                judge.absorb(state.subtotal)
        first = min((parts[0].subtotals_offset for parts in states.values()), default=0)
        for breach in self.breaches:
            judge.lives.recall(breach)
        for told in self.subtotals[first if len(states) == PARTITIONS else 0 :]:
            judge.absorb(told)
        return judge

    def _chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent
