"""What an owner hears of its partition: told by itself, and by an owner that it replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from gpuledger.budgets import Catalog, Judge, Lives, PartitionCount, Sums, Window, WindowCharges
from gpuledger.budgets.backfill import Sheet
from gpuledger.budgets.backfilling import all_of, begin, merge
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import Lines, Payer
from gpuledger.budgets.states import states_of
from gpuledger.budgets.told import Told, headers_of
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import Incoming, PartitionReader
from gpuledger.contract.records import BudgetSubtotal, decode, encode
from gpuledger.contract.topics import BUDGET_SUBTOTALS
from gpuledger.contract.windows import DAY_NS, HOUR_NS
from tests.support.budget_minutes import version

NANO = 10**9
DAY = 20_000 * DAY_NS
DOCUMENT = "    period: day\n    amount: 10\n    currency: USD\n    thresholds: [100%]\n"
CATALOG = Catalog([version(DOCUMENT)])
LATER = Catalog([version(DOCUMENT, active_from_ns=DAY + 2 * HOUR_NS)])  # within its first period


def charged(hour: int, money: int) -> WindowCharges:
    payer = Payer("vision", "", "ns", "train", "H100", "train-0", "USD")
    lines: Lines = ((payer, (HOUR_NS, 0, 0, 0, money * NANO, 0, 0, 0)),)
    return WindowCharges(Window("c", "n", DAY + hour * HOUR_NS), HOUR_NS, 1, 1, lines, hour, 1_000 * hour)


class Said(NamedTuple):
    """What a stage was let know."""

    offset: int
    version: int
    mark: str | None


class Stage:
    def __init__(self, subtotals_offset: int) -> None:
        self.subtotals_offset = subtotals_offset
        self.said: list[Said] = []

    def hear(self, offset: int, version: int, mark: str | None) -> None:
        if offset >= self.subtotals_offset:
            self.said.append(Said(offset, version, mark))


class Topic:
    """gpu.budget-subtotals, as the reader gives it, and what is decoded of it."""

    def __init__(self) -> None:
        self.records: list[Incoming] = []
        self.decoded: list[int] = []

    def tell(self, count: PartitionCount, with_headers: bool = True) -> None:
        value = encode(subtotal_of(count, Changed()))
        headers = headers_of(count) if with_headers else ()
        key, offset = str(count.partition).encode(), len(self.records)
        self.records.append(Incoming(BUDGET_SUBTOTALS, 0, offset, 0, key, value, headers))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        assert (topic, partition) == (BUDGET_SUBTOTALS, 0)
        return 0, len(self.records)

    def read_range(self, topic: str, partition: int, first: int, last: int) -> Iterator[Incoming]:
        return iter(self.records[first : last + 1])

    def read(self, cls: type[BudgetSubtotal], message: Incoming) -> BudgetSubtotal | None:
        self.decoded.append(message.offset)
        return decode(cls, message.value) if message.value else None

    @property
    def told(self) -> Told:
        return Told(cast(PartitionReader, self), cast(TopicsRead, self))


def test_an_owner_hears_once_of_each_subtotal_of_its_partition_that_is_not_in_its_state() -> None:
    topic, first, second = Topic(), Stage(subtotals_offset=2), Stage(subtotals_offset=1)
    own, other, foreign = (PartitionCount(number, CATALOG, position=40 + number) for number in range(3))
    topic.tell(own)
    topic.tell(own)
    topic.tell(other)
    topic.tell(own)
    told = topic.told
    told.begin({0: first, 1: second})
    assert first.said == [Said(3, 40, own.mark)]
    assert second.said == [Said(2, 41, other.mark)]
    topic.tell(foreign)
    topic.tell(other)
    assert told.look({0: first, 1: second}) == 6
    assert told.look({0: first, 1: second}) == 6
    assert len(first.said) == 1
    assert second.said[1:] == [Said(5, 41, other.mark)]
    assert topic.decoded == []
    told.begin({2: (gained := Stage(subtotals_offset=0))})
    assert gained.said == [Said(4, 42, foreign.mark)]


def test_a_subtotal_without_headers_is_decoded_and_one_that_can_not_be_read_is_passed_over() -> None:
    topic, stage, count = Topic(), Stage(subtotals_offset=0), PartitionCount(0, CATALOG, position=7)
    told = topic.told
    told.begin({})
    topic.tell(count, with_headers=False)
    topic.records.append(topic.records[0]._replace(offset=1, value=None))
    assert told.look({0: stage}) == 2
    assert stage.said == [Said(0, 7, None)]
    assert topic.decoded == [0, 1]


def test_a_state_names_the_subtotals_that_say_more_than_it_has_until_its_owner_has_counted_as_far() -> None:
    count = PartitionCount(0, CATALOG)
    count.count([charged(0, 1)], {})
    count.hear(10, 1, count.mark)  # its own
    assert count.may_be_told
    assert count.told.needed_from(count.position, 11) == 11
    for offset, version_ in ((11, 2), (12, 1), (13, 3), (14, 2)):  # of one that it replaced
        count.hear(offset, version_, count.mark)
    found = []
    for hour in (1, 2):
        assert not count.may_be_told
        found.append(count.told.needed_from(count.position, 15))
        count.count([charged(hour, 1)], {})
    assert found == [11, 13]
    assert count.may_be_told
    assert count.told.needed_from(count.position, 15) == 15


def test_who_begins_at_a_state_judges_by_no_less_than_was_told() -> None:
    first, follows = PartitionCount(0, CATALOG), PartitionCount(0, CATALOG)
    told: list[BudgetSubtotal] = []
    for hour in range(4):
        first.count([charged(hour, 1)], {})
        told.append(subtotal_of(first, first.changed))
        first.changed = Changed()
    sums = []
    for hour in range(4):
        follows.count([charged(hour, 1)], {})
        if hour == 0:
            for offset, one in enumerate(told):
                follows.hear(offset, one.version, follows.mark)
        needed_from = follows.told.needed_from(follows.position, len(told))
        judge = Judge(Sums(), Lives())
        for state in states_of(follows, needed_from):
            judge.absorb(state.subtotal)
        for one in told[needed_from:]:
            judge.absorb(one)
        (meter,) = {meter.key for meter in CATALOG.plan_at(DAY).meters.values()}
        sums.append(judge.sums.spent(meter, DAY).nano)
    assert sums == [4 * NANO] * 4


def made_up_for(count: PartitionCount) -> None:
    """Count what lay before the version: six dollars of its first hour."""
    begun = begin(count)
    assert begun is not None
    count.count([charged(1, 1)], {})
    base = Sheet()
    begun.fill(LATER, base, charged(0, 6).window, DAY + HOUR_NS, charged(0, 6))
    merge(count, base)


def test_what_a_replaced_owner_lacks_of_the_time_before_a_version_is_told_anew() -> None:
    lingers, owner = PartitionCount(0, LATER), PartitionCount(0, LATER)
    for count in (lingers, owner):
        count.count([charged(0, 6)], {})
    made_up_for(owner)
    lingers.count([charged(1, 1)], {})
    judge = Judge(Sums(), Lives())
    judge.absorb(subtotal_of(owner, all_of(owner, owner.counters.untold)))
    owner.hear(0, owner.position, owner.mark)
    owner.counters.untold.clear()
    for count in (owner, lingers):
        count.count([charged(2, 3)], {})
        judge.absorb(subtotal_of(count, count.changed))
        count.changed = Changed()
    (meter,) = {reach.key for reach in owner.counters.backfilled}
    assert judge.sums.spent(meter, DAY).nano == 3 * NANO  # as the one that lingers has it
    owner.hear(1, 3, owner.mark)
    assert owner.counters.untold == set()
    owner.hear(2, 3, lingers.mark)
    assert owner.counters.untold == {meter}
    judge.absorb(subtotal_of(owner, all_of(owner, owner.counters.untold)))
    assert judge.sums.spent(meter, DAY).nano == 10 * NANO
    owner.counters.untold.clear()
    owner.hear(3, 2, lingers.mark)  # it says nothing beside what was told later
    assert owner.counters.untold == set()
