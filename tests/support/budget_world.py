"""A ledger in memory under random faults, and the budgets core driven over it.

Every part may crash between any two of its steps: it loses what it holds, and goes on from what was written,
as the application does; its records come from the offset that was acknowledged on. An owner that was
replaced may go on for a while: what it tells is taken in, its state and its breaches are fenced. One
partition may be read far ahead of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from gpuledger.budgets import Catalog, Judge, Lives, PartitionCount, Sums, WindowCharges
from gpuledger.budgets.backfilling import all_of, begin, merge
from gpuledger.budgets.catalog import BEHIND_NS
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed, Counters
from gpuledger.budgets.states import counters_of, newest, states_of
from gpuledger.contract.records import Breach, BudgetState, BudgetSubtotal, decode, encode
from tests.support.budget_charges import PARTITIONS, Charges
from tests.support.budget_ledger import BEFORE, CATALOG, CHANGED_NS

KNOWN_WINDOWS = 5  # so that a history goes beyond


@dataclass
class Owner:
    """Who counts a partition: what it holds, and the next record that Kafka gives it."""

    count: PartitionCount
    next_offset: int
    looked: int  # behind the subtotals of which it has heard


class World(Charges):
    """One history. ``restates`` and ``crashes`` are how often, in percent; where there are crashes, an owner
    may go on after it was replaced."""

    def __init__(self, seed: int, restates: int, crashes: int, days: int = 1) -> None:
        super().__init__(seed, restates, days)
        self._crashes = crashes
        self._behind_others = self.random.choice((None, *range(PARTITIONS)))
        self.subtotals: list[BudgetSubtotal] = []
        self._marks: list[str] = []  # of the subtotals
        self.states: list[BudgetState] = []
        self.acknowledged: dict[int, int] = {}
        self.breaches: list[Breach] = []
        self.zombie_steps = 0
        self.backfilled = 0
        self._owners: dict[int, Owner] = {}
        self._zombies: list[tuple[int, Owner]] = []
        self._second: tuple[Judge, int] | None = None

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
        if owner.looked < len(self.subtotals):
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
        elif self._crashes and self._chance(3):
            self._zombies.append((number, owner))
            owner = self._owners[number] = self._take_over(number)
        alive = self._count(number, owner)
        if alive and self._chance(80):
            alive = self._backfill(number, owner)
        if alive and self._chance(30):
            alive = self._keep(number, owner)
        if not alive:
            del self._owners[number]
        self._linger()

    def _linger(self) -> None:
        """A round of an owner that was replaced."""
        if not self._zombies or self._chance(50):
            return
        number, owner = self._zombies[0]
        if self._chance(50):
            self._tell_backfilled(owner)
        self._count(number, owner)
        self.zombie_steps += 1
        if self._chance(30):
            self._zombies.pop(0)

    def _count(self, number: int, owner: Owner) -> bool:
        """Count some records and tell it. False: crashed."""
        count = owner.count
        given = self._given(number, owner)
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
            told, count.changed = count.changed, Changed()
            self._tell(count, told)
        self._counted(number, owner)
        return not self._crash()

    def _given(self, number: int, owner: Owner) -> list[WindowCharges]:
        """What Kafka gives next. No week passes before what lay before a version is made up for: beyond that
        it is not (docs/budgets.md)."""
        given = self.logs[number].records[owner.next_offset :][: self.random.randrange(1, 6)]
        count = owner.count
        if count.position and count.backfill.lacking(count.counters.newest_end_ns):
            return [*takewhile(lambda one: one.window.start_ns < CHANGED_NS + BEHIND_NS, given)]
        return given

    def _backfill(self, number: int, owner: Owner) -> bool:
        """Begin to make up for the time before the second version, or end it. False: crashed."""
        count = owner.count
        self._tell_backfilled(owner)
        begun = count.backfill.round
        if begun is None:
            begin(count)
        elif begun.before_ms is not None:
            end = self._look(number, owner)
            merge(count, self._base(number, begun, begun.before_ms))
            self.backfilled += 1
            self._linger()
            return self._written(number, owner, end)
        return True

    def _tell_backfilled(self, owner: Owner) -> None:
        count = owner.count
        if count.counters.untold and count.may_be_told:
            self._tell(count, all_of(count, count.counters.untold))
            count.counters.untold.clear()

    def _tell(self, count: PartitionCount, changed: Changed) -> None:
        self.subtotals.append(decode(BudgetSubtotal, encode(subtotal_of(count, changed))))
        self._marks.append(count.mark)

    def _counted(self, number: int, owner: Owner) -> None:
        """All is told; nothing is acknowledged before the state is written."""

    def _keep(self, number: int, owner: Owner) -> bool:
        """Write the state; who lingers may tell more between. False: crashed."""
        end = self._look(number, owner)
        self._linger()
        return self._written(number, owner, end)

    def _written(self, number: int, owner: Owner, end: int) -> bool:
        """Write the state, then acknowledge what it has. False: crashed between."""
        count = owner.count
        states = states_of(count, count.told.needed_from(count.position, end))
        self.states += [decode(BudgetState, encode(state)) for state in states]
        if self._crash():
            return False
        self.acknowledged[number] = count.position
        return True

    def _take_over(self, number: int) -> Owner:
        states, looked = newest(self.states).get(number), 0
        if states is None:
            count = PartitionCount(number, self.random.choice((BEFORE, CATALOG)))
        else:
            counters, position = counters_of(states)
            count = PartitionCount(number, self._known(counters), counters, position)
            for record in self.logs[number].records[states[0].tail_offset : position]:
                count.recall(record)
            looked = states[0].subtotals_offset
        owner = Owner(count, self.acknowledged.get(number, 0), looked)
        self._look(number, owner)
        return owner

    def _known(self, counters: Counters) -> Catalog:
        """The versions that a new owner finds: both where the one before may have counted by them."""
        may_be_new = counters.newest_end_ns < CHANGED_NS and not counters.backfilled
        return self.random.choice((BEFORE, CATALOG)) if may_be_new else CATALOG

    def _look(self, number: int, owner: Owner) -> int:
        """Let an owner know what anybody has told of its partition; returns the offset behind it."""
        first, owner.looked = owner.looked, len(self.subtotals)
        for offset, told in enumerate(self.subtotals[first:], first):
            if told.partition == number:
                owner.count.hear(offset, told.version, self._marks[offset])
        return owner.looked

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
