"""An owner of a partition that was replaced and goes on, on a real Kafka: nobody judges by less for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count as numbers
from pathlib import Path

import pytest
from faust.types import TP

from gpuledger.budgets.engine import Engine
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import (
    BusSettings,
    Incoming,
    PartitionReader,
    partition_for_node,
)
from gpuledger.configuration.publish import Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Fenced
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.topics import BUDGET_SUBTOTALS, CHARGES
from gpuledger.pricing.yaml_documents import read_documents
from tests.support.budget_workers import Ledger, spent
from tests.support.charge_sets import WINDOW_NS
from tests.support.kafka import await_marks

NANO = 1_000_000_000
DOCUMENT = """
kind: budgets
budgets:
  - {id: b, scope: {team: team-a}, period: fixed, starts: 2020-01-01, ends: 2100-01-01, amount: 1000,
     currency: USD, counts: used, thresholds: [100%]}
"""
APPLICATION = "lingering-under-test"
CROSSING = 4  # the record with which the line is crossed
Engines = Callable[[Sequence[TP]], Engine]


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
def budgeted(own_bus: BusSettings) -> BusSettings:
    """A Kafka of this test alone with all topics and one budget."""
    (document,) = read_documents(DOCUMENT, "budgets.yaml")
    Documents(own_bus, SystemClock()).apply(document)
    return own_bus


@pytest.fixture
def engines(budgeted: BusSettings, tmp_path: Path) -> Iterator[Engines]:
    """Makes engines of one application that have taken over; each tick of theirs writes states."""
    made: list[Engine] = []
    number = numbers()

    def make(places: Sequence[TP]) -> Engine:
        settings = BudgetSettings(
            application=APPLICATION,
            state_interval_s=1e-6,
            data_directory=tmp_path / str(next(number)),
        )
        engine = Engine(budgeted, settings, "clickhouse://nobody@127.0.0.1:1/none")
        made.append(engine)
        engine.supersede(1)
        engine.assign(1, places)
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def ledger(budgeted: BusSettings) -> Iterator[Ledger]:
    ledger = Ledger(budgeted)
    yield ledger
    ledger.close()


def charged(bus: BusSettings, ledger: Ledger) -> tuple[list[Incoming], list[Incoming]]:
    """Records of a node of partition 0, of 200 each, and of one of partition 1 a record of nothing."""
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    names = {partition_for_node(NodeKey("c1", name).key, 2): name for name in ("n1", "n2", "n3", "n4", "n5")}
    ledger.charge([spent(names[0], start + number * WINDOW_NS, 200 * NANO) for number in range(CROSSING + 2)])
    ledger.charge([spent(names[1], start, 0)])
    with PartitionReader(bus, "test-lingering") as reader:
        busy, other = (list(reader.read_to_end(CHARGES, number)) for number in range(2))
    return busy, other


def told(bus: BusSettings) -> list[int]:
    """The versions of the subtotals of partition 0."""
    with PartitionReader(bus, "test-lingering") as reader:
        messages = [message for message in reader.read_to_end(BUDGET_SUBTOTALS, 0) if message.key == b"0"]
    return [int(dict(message.headers)["version"] or 0) for message in messages]


def judged(bus: BusSettings, engines: Engines, ledger: Ledger) -> list[str]:
    """What is told of the breach once one more owner of all breaches has begun and judged."""
    engine = engines([TP(BUDGET_SUBTOTALS, 0)])
    assert engine.tick(1) == {}
    await_marks(bus, f"{APPLICATION}-breaches")
    return [breach.state for breach in ledger.breaches()]


def test_no_breach_is_taken_back_for_an_owner_that_lingers_and_its_follower_catches_up(
    budgeted: BusSettings, engines: Engines, ledger: Ledger
) -> None:
    records, others = charged(budgeted, ledger)
    place, other = TP(CHARGES, 0), TP(CHARGES, 1)
    lingers = engines([place])
    lingers.feed(1, records[:1])
    assert lingers.tick(1) == {place: 1}
    follows = engines([place])
    lingers.feed(1, records[1 : CROSSING + 1])
    assert told(budgeted) == [1, CROSSING + 1]
    assert judged(budgeted, engines, ledger) == ["firing"]
    with pytest.raises(Fenced):
        lingers.tick(1)
    beside = engines([other])
    beside.feed(1, others)
    assert beside.tick(1) == {other: 1}  # nobody has to read what was told before, but for partition 0

    for number in range(1, CROSSING):
        follows.feed(1, records[number : number + 1])
        assert follows.tick(1) == {place: number + 1}  # less than was judged by
        assert judged(budgeted, engines, ledger) == ["firing"]
    follows.feed(1, records[CROSSING : CROSSING + 1])
    assert follows.tick(1) == {place: CROSSING + 1}
    assert judged(budgeted, engines, ledger) == ["firing"]
    follows.feed(1, records[CROSSING + 1 :])
    assert follows.tick(1) == {place: CROSSING + 2}
    assert judged(budgeted, engines, ledger) == ["firing"]
    assert told(budgeted) == [1, CROSSING + 1, *range(2, CROSSING + 3)]


def test_an_owner_that_begins_hears_what_one_that_lingers_has_told(
    budgeted: BusSettings, engines: Engines, ledger: Ledger
) -> None:
    records, place = charged(budgeted, ledger)[0], TP(CHARGES, 0)
    lingers = engines([place])
    lingers.feed(1, records[:1])
    assert lingers.tick(1) == {place: 1}
    engines([place])  # and does no more
    lingers.feed(1, records[1:3])
    follows = engines([place])
    follows.feed(1, records[1:2])
    assert follows.tick(1) == {place: 2}
    follows.feed(1, records[2:3])
    assert follows.tick(1) == {place: 3}
    assert told(budgeted) == [1, 3, 2, 3]
