"""A ledger in memory under random faults, the budgets core driven over it, and what a simple reference says.

Every part may crash between any two of its steps: it loses what it holds, and goes on from what was written,
as the application does. The warehouse is ahead of everybody and has collapsed what came twice.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from gpuledger.budgets import (
    Catalog,
    Lines,
    Lives,
    PartitionCount,
    Replaced,
    Sums,
    WindowCharges,
    conditions,
)
from gpuledger.budgets.columns import counters_of, newest, states_of, subtotal_of
from gpuledger.budgets.counting import Changed
from gpuledger.budgets.lines import Payer, Window
from gpuledger.contract.columns import longs
from gpuledger.contract.records import (
    Breach,
    Budget,
    BudgetRule,
    BudgetState,
    BudgetSubtotal,
    BudgetsVersion,
    decode,
    encode,
)
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S

WINDOW_NS = 300 * NS_PER_S  # not a length of the product's, so that each is a bucket of its own
START_NS = 20_000 * DAY_NS - 6 * WINDOW_NS  # a day ends in the middle of a history
WINDOWS = 12
ROLLING_NS = 8 * WINDOW_NS
IDLE_WINDOWS, IDLE_NANO = 3, 60  # held idle for longer than so many windows at so much or more in each
KNOWN_WINDOWS = 5  # so that a history goes beyond
NODES = ("a", "b", "c")
PARTITIONS = 2
TEAMS = ("vision", "speech")


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


BUDGETS = (
    budget("vision", "vision", 900),
    budget("speech", "speech", 400),
    budget("all", "", 1500, counts=["used"]),
    budget("rolling", "", 300, period="rolling", rolling_ns=ROLLING_NS),
    budget("time", "vision", 0, amount_nano=None, currency="", amount_gpu_ns=700),
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
CATALOG = Catalog([BudgetsVersion(version=1, active_from_ns=0, budgets=[*BUDGETS, *IDLE_BUDGETS])])


def reference(ledger: dict[Window, Lines], now_ns: int) -> dict[tuple[str, int, int], bool]:
    """(budget, start of its day or 0, threshold) to whether the line is crossed, over the final ledger."""
    spent: dict[tuple[str, int], int] = defaultdict(int)
    for one in BUDGETS:
        for window, lines in ledger.items():
            for payer, amounts in lines:
                if one.scope.get("team", payer.team) != payer.team:
                    continue
                first = 0 if one.amount_nano is None else 4
                amount = amounts[first] + (amounts[first + 1] if "held_idle" in one.counts else 0)
                if one.period == "day":
                    spent[one.id, window.start_ns // DAY_NS * DAY_NS] += amount
                elif window.start_ns >= now_ns - ROLLING_NS:
                    spent[one.id, 0] += amount
    found = {}
    for one in BUDGETS:
        for (name, start_ns), amount in spent.items():
            whole = one.amount_nano if one.amount_nano is not None else one.amount_gpu_ns or 0
            for ppm in (500_000, 1_000_000):
                if name == one.id:
                    found[name, start_ns, ppm] = amount * 1_000_000 >= whole * ppm
    return found


def idle_windows(ledger: dict[Window, Lines], team: str, now_ns: int) -> int:
    """For how many windows, up to the newest that is judged, a team held so much idle without a break."""
    amounts: dict[int, int] = defaultdict(int)
    for window, lines in ledger.items():
        for payer, line in lines:
            amounts[window.start_ns] += line[5] if payer.team == team else 0
    start_ns, found = now_ns - 2 * WINDOW_NS, 0
    while amounts[start_ns] >= IDLE_NANO:
        start_ns, found = start_ns - WINDOW_NS, found + 1
    return found


@dataclass
class Log:
    """A partition of gpu.charges."""

    records: list[WindowCharges] = field(default_factory=list)
    now_ms: int = 1

    def append(self, window: Window, revision: int, lines: Lines, later_ms: int) -> None:
        """One more record."""
        self.now_ms += later_ms
        self.records.append(
            WindowCharges(window, WINDOW_NS, revision, 0, lines, len(self.records), self.now_ms)
        )


class World:
    """One history. ``restates`` and ``crashes`` are how often, in percent."""

    def __init__(self, seed: int, restates: int, crashes: int, withdraws: bool = True) -> None:
        self.random = random.Random(seed)
        self._restates, self._crashes, self._withdraws = restates, crashes, withdraws
        self._newest_ns = 0
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.content: dict[tuple[Window, int], Lines] = {}
        self.subtotals: list[BudgetSubtotal] = []
        self.states: list[BudgetState] = []
        self.breaches: list[Breach] = []
        self._counts: dict[int, PartitionCount] = {}
        self._second: tuple[Sums, Lives, int] | None = None

    # the ledger

    def write(self) -> None:
        """All windows in their order, with what is sent again, late, or otherwise than before, between."""
        for number in range(WINDOWS):
            for index, node in enumerate(NODES):
                window = Window("c", node, START_NS + number * WINDOW_NS)
                if self._chance(90):
                    self._append(index % PARTITIONS, window)
                while self._chance(self._restates):
                    earlier = self.random.randrange(number + 1)
                    self._append(index % PARTITIONS, window._replace(start_ns=START_NS + earlier * WINDOW_NS))

    def _append(self, partition: int, window: Window) -> None:
        known = [revision for at, revision in self.content if at == window]
        recent = window.start_ns > self._newest_ns - KNOWN_WINDOWS * WINDOW_NS
        self._newest_ns = max(self._newest_ns, window.start_ns)
        if known and recent and self._chance(40):
            revision = max(known)  # once more, as after a restart
        else:
            revision = max(known, default=0) + 1
            self.content[window, revision] = self._lines(known=bool(known))
        later = self.random.choice((1, 1_000, 70_000, 200_000))
        self.logs[partition].append(window, revision, self.content[window, revision], later)

    def _lines(self, known: bool) -> Lines:
        if self._chance(10) and (self._withdraws or not known):
            return ()
        lines = []
        for team in TEAMS:
            payer = Payer(team, "", "ns", f"{team}-train", "H100", f"{team}-0", "USD")
            lines.append((payer, tuple(self.random.randrange(60) for _ in range(8))))
        return tuple(sorted(lines))

    def ledger(self) -> dict[Window, Lines]:
        """The greatest revision of each window."""
        best = {}
        for (window, _), lines in sorted(self.content.items(), key=lambda item: item[0]):
            best[window] = lines
        return best

    # the application

    def run(self) -> None:
        """Let both stages work until nothing is left, crashing on the way."""
        while self._behind() or self._second is None or self._second[2] < len(self.subtotals):
            stage = self.random.randrange(PARTITIONS + 1)
            if stage < PARTITIONS:
                self._count(stage)
            else:
                self._judge()
        self._judge()
        while self._second is None:
            self._judge()

    def _behind(self) -> bool:
        for number, log in enumerate(self.logs):
            count = self._counts.get(number)
            if count is None or count.position < len(log.records) or count.changed.totals:
                return True
        return False

    def _crash(self) -> bool:
        return self._chance(self._crashes)

    def _count(self, number: int) -> None:
        count = self._counts.get(number) or self._take_over(number)
        self._counts[number] = count
        taken = self.random.randrange(1, 6)
        records = self.logs[number].records[count.position : count.position + taken]
        replaced = {w: self._asked(count, number, w, known) for w, known in count.to_ask(records).items()}
        known = {window: one for window, one in replaced.items() if one is not None}
        count.count(records, known)
        if self._crash():
            del self._counts[number]
            return
        if count.changed.totals or records:
            told, count.changed = subtotal_of(count, count.changed), Changed()
            self.subtotals.append(decode(BudgetSubtotal, encode(told)))
        if self._crash():
            del self._counts[number]
            return
        if count.may_be_kept and self._chance(30):
            states = states_of(count, len(self.subtotals))
            self.states += [decode(BudgetState, encode(state)) for state in states]

    def _take_over(self, number: int) -> PartitionCount:
        versions = [told.version for told in self.subtotals if told.partition == number]
        states = newest(self.states).get(number)
        if states is None:
            count = PartitionCount(number, CATALOG)
            count.told_version = max(versions, default=0)
            return count
        counters, position = counters_of(states)
        count = PartitionCount(number, CATALOG, counters, position)
        count.told_version = max(versions, default=0)
        for record in self.logs[number].records[states[0].tail_offset : position]:
            count.recall(record)
        return count

    def _asked(
        self, count: PartitionCount, number: int, window: Window, counted: int | None
    ) -> Replaced | None:
        if counted is not None:
            return Replaced(counted, 0, self.content[window, counted])
        came: dict[int, int] = {}
        for record in self.logs[number].records:
            if record.window == window and record.lines:
                came[record.revision] = record.append_ms  # rows that come twice are the later ones
        known = [revision for revision, ms in came.items() if ms < count.counters.tail_start_ms]
        if not known:
            return None
        return Replaced(max(known), 0, self.content[window, max(known)])

    def _judge(self) -> None:
        if self._second is None:
            sums, lives = Sums(), Lives()
            first = len(self.subtotals)
            states = newest(self.states)
            for parts in states.values():
                for state in parts:
                    sums.absorb(state.subtotal)
                first = min(first, parts[0].subtotals_offset)
            if len(states) < PARTITIONS:
                first = 0
            for breach in self.breaches:
                lives.recall(breach)
            for told in self.subtotals[first:]:
                sums.absorb(told)
        else:
            sums, lives, first = self._second
            for told in self.subtotals[first : first + self.random.randrange(1, 9)]:
                sums.absorb(told)
                first += 1
        end = first if self._second is not None else len(self.subtotals)
        changes = lives.changes(conditions(CATALOG, sums), sums, complete=True)
        if self._crash():
            self._second = None
            return
        self.breaches += changes
        if self._crash():
            self._second = None
            return
        for breach in changes:
            lives.recall(breach)
        self._second = (sums, lives, end)

    def _chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent
