"""Restatements of periods that are over for days, partitions far apart, and sets sent again after long."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.budgets import (
    Catalog,
    Judge,
    Lives,
    PartitionCount,
    Replaced,
    Sums,
    Window,
    WindowCharges,
    known,
)
from gpuledger.budgets.catalog import BEHIND_NS, RESTATED_NS
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Lines, Payer
from gpuledger.budgets.states import counters_of, states_of
from gpuledger.contract.records import BudgetSubtotal
from gpuledger.contract.windows import DAY_NS, HOUR_NS
from gpuledger.processor.protocol.values import Rules
from tests.support.budget_minutes import version

NANO = 10**9
DAY = 20_000 * DAY_NS
DOCUMENT = "    period: day\n    amount: 10\n    currency: USD\n    thresholds: [100%]\n"
CATALOG = Catalog([version(DOCUMENT)])


def spent(money: int) -> Lines:
    payer = Payer("vision", "", "ns", "train", "H100", "train-0", "USD")
    return ((payer, (HOUR_NS, 0, 0, 0, money * NANO, 0, 0, 0)),)


def charged(window: Window, money: int, offset: int, append_ms: int, revision: int = 1) -> WindowCharges:
    return WindowCharges(window, HOUR_NS, revision, 1, spent(money), offset, append_ms)


class Partition:
    """One partition with a node, charged hour by hour, and the warehouse that its restatements ask."""

    def __init__(self, number: int, judge: Judge) -> None:
        self.count = PartitionCount(number, CATALOG)
        self._judge = judge
        self.now_ms = 0

    def charge(self, day: int, money: int, revision: int = 1, before: int = 0) -> None:
        """Charge the first hour of a day; of a restated one the warehouse has its first revision."""
        self.now_ms += 600_000  # beyond the tail
        window = Window("c", f"n{self.count.partition}", DAY + day * DAY_NS)
        one = charged(window, money, self.count.position, self.now_ms, revision)
        asked = self.count.to_ask([one])
        self.count.count([one], {window: Replaced(1, 1, spent(before)) for window in asked})

    def tell(self) -> None:
        told, self.count.changed = subtotal_of(self.count, self.count.changed), Changed()
        self._judge.absorb(told)


def judged(judge: Judge) -> list[str]:
    changes = judge.changes(CATALOG)
    judge.told(changes)
    return [breach.state for breach in changes]


def test_a_day_that_is_restated_on_the_third_day_is_retracted() -> None:
    judge = Judge(Sums(), Lives())
    one = Partition(0, judge)
    told = []
    for day, money in enumerate((12, 1, 1)):
        one.charge(day, money)
        one.tell()
        told += judged(judge)
    assert told == ["firing", "resolved"]
    one.charge(0, 2, revision=2, before=12)
    one.tell()
    assert judged(judge) == ["retracted"]


def test_a_day_is_open_for_as_long_as_the_processor_writes_windows_anew_and_then_closed() -> None:
    assert Rules().oldest_ns == RESTATED_NS
    judge = Judge(Sums(), Lives())
    one = Partition(0, judge)
    for day in range(9):
        one.charge(day, 1)
    one.charge(0, 10, revision=2, before=1)
    one.tell()
    assert judged(judge) == ["firing", "resolved"]
    one.charge(9, 1)
    one.charge(0, 1, revision=3)
    one.tell()
    assert judged(judge) == []


def test_what_comes_with_the_end_of_a_period_that_closes_is_judged() -> None:
    judge = Judge(Sums(), Lives())
    one = Partition(0, judge)
    for day in range(9):
        one.charge(day, 1)
        one.tell()
        assert judged(judge) == []
    one.charge(0, 10, revision=2, before=1)
    one.charge(9, 1)  # closes the first day, in the same subtotal
    one.tell()
    assert judged(judge) == ["firing", "resolved"]


def test_crossings_are_told_though_one_partition_is_read_days_ahead() -> None:
    judge = Judge(Sums(2), Lives())
    ahead, behind = Partition(0, judge), Partition(1, judge)
    for day in range(7):
        ahead.charge(day, 6)
        ahead.tell()
        assert judged(judge) == []
    parts = [*states_of(ahead.count, 0)]
    judge = Judge(Sums(2), Lives())  # whoever takes the breaches over knows as much
    for state in parts:
        judge.absorb(state.subtotal)
    behind = Partition(1, judge)
    told = []
    for day in range(7):
        behind.charge(day, 4)
        behind.tell()
        told.append(judged(judge))
    assert told == [["firing", "resolved"]] * 6 + [["firing"]]


def test_a_day_that_is_let_go_of_is_not_judged_by_the_part_that_a_partition_tells_again() -> None:
    """As one does that counts again what was told already, a long time of it in one bunch."""
    judge = Judge(Sums(2), Lives())
    every = [Partition(number, judge) for number in range(2)]
    told, again = [], BudgetSubtotal(partition=1, version=-1)
    for day in range(20):
        for one in every:
            one.charge(day, 6)
            if day == 0:
                again = subtotal_of(one.count, one.count.changed)
            one.tell()
        told += judged(judge)
    assert (told.count("firing"), told.count("resolved")) == (20, 19)
    judge.absorb(replace(again, version=every[1].count.position))
    assert judged(judge) == []


def test_what_is_kept_of_days_does_not_grow_for_good() -> None:
    judge = Judge(Sums(), Lives())
    one = Partition(0, judge)
    for day in range(60):
        one.charge(day, 1)
        one.tell()
        judged(judge)
    most = (RESTATED_NS + BEHIND_NS) // DAY_NS + 2
    (periods,) = one.count.counters.totals.values()
    assert len(periods) <= most
    assert len(judge.sums.starts(next(iter(one.count.counters.totals)))) <= most
    assert counters_of(states_of(one.count, 0))[0].totals == one.count.counters.totals


def test_a_revision_that_newer_windows_of_its_own_bunch_push_out_is_not_counted_again() -> None:
    count = PartitionCount(0, CATALOG)
    first, later_ms = Window("c", "n", DAY), 10**9
    newer = first._replace(start_ns=DAY + known.KNOWN_WINDOWS * HOUR_NS)  # has its place
    bunches = [
        [charged(first, 4, 0, 0)],
        [charged(Window("c", "other", DAY), 0, 1, later_ms)],  # the first is not in the tail any more
        [charged(newer, 1, 2, later_ms), charged(first, 4, 3, later_ms)],
    ]
    for records in bunches:
        assert count.to_ask(records) == {}
        count.count(records, {})
    (periods,) = count.counters.totals.values()
    assert periods[DAY].nano == 4 * NANO


def test_of_a_window_that_comes_twice_at_once_the_warehouse_is_not_asked() -> None:
    """As after a takeover, which reads what was sent and what was restated since in one go."""
    count = PartitionCount(0, CATALOG)
    windows = [Window("c", "n0", DAY), Window("c", "n0", DAY + HOUR_NS)]
    records = [charged(window, 5, offset, 1) for offset, window in enumerate(windows)]
    records += [charged(window, 2, 2 + number, 1, revision=2) for number, window in enumerate(windows)]
    assert count.to_ask(records) == {}
    count.count(records, {})
    (total,) = next(iter(count.counters.totals.values())).values()
    assert total.nano == 4 * NANO
