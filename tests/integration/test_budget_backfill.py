"""What lay before the version that brings a budget: read from the warehouse as of a moment of arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from gpuledger.budgets import Catalog, PartitionCount, Window
from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.backfill_read import Reading
from gpuledger.budgets.backfilling import begin
from gpuledger.budgets.lines import charges_of
from gpuledger.bus import partition_for_node
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import BudgetsVersion, ChargeSet, CurrencyRate, PriceBookVersion
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.pricing.yaml_documents import read_documents
from gpuledger.sink.batcher import Batch
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import WINDOW_NS, charge_set, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]

ACTIVE = recent_window_ns(0) + 17 * MINUTE_NS
OLD = "kind: budgets\nbudgets: [{id: old, period: month, amount: 100, currency: USD}]"
NEW = """
kind: budgets
budgets:
  - {id: old, period: month, amount: 100, currency: USD, rules: [{kind: forecast}]}
  - {id: everything, period: month, amount: 100, currency: USD, counts: all}
  - {id: team-a, scope: {team: team-a}, period: week, amount: 5, currency: USD, time_zone: Asia/Kolkata}
  - {id: used, scope: {gpu_model: H100, cluster: c1}, period: day, gpu_hours: 1, counts: used}
  - {id: rolling, scope: {team: team-b}, period: rolling, rolling: 6h, gpu_hours: 3, counts: held_idle}
  - {id: euros, period: month, amount: 40, currency: EUR, counts: all}
  - {id: idle, period: month, amount: 40, currency: USD, rules: [{kind: idle, at_least: 1}]}
  - {id: paced, period: day, amount: 40, currency: USD, rules: [{kind: burn_rate}]}
"""
RATES = [[(0, 9, 10)], [(0, 7, 10), (ACTIVE - 3 * HOUR_NS - 1700 * NS_PER_S, 11, 10)]]
PRICES = [
    PriceBookVersion(
        version=number,
        active_from_ns=0,
        rates=[CurrencyRate("USD", "EUR", at, int(Fraction(a, b) * 10**9)) for at, a, b in dated],
    )
    for number, dated in enumerate(RATES, 1)
]
NODES = ("n1", "n2", "n3")
PARTITIONS = 2


def version(text: str, number: int, active_from_ns: int) -> BudgetsVersion:
    (found,) = read_documents(text, "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    return replace(found, version=number, active_from_ns=active_from_ns)


CATALOG = Catalog([version(OLD, 1, 0), version(NEW, 2, ACTIVE)], PRICES)


def history() -> list[ChargeSet]:
    """Windows of three nodes, near each other and far apart, some of them restated later."""
    hours = (0.05, 0.1, 0.3, 0.9, 2.2, 3.4, 3.6, 5.9, 6.1, 7, 20, 25.3, 47, 50, 90, 200, 400)
    sets = []
    for number, ago in enumerate(hours):
        start = ACTIVE - round(ago * HOUR_NS)
        for node in NODES:
            one = charge_set(start - start % WINDOW_NS, node=node)
            sets.append(replace(one, price_version=1 + number % 2))
    again = [replace(one, inputs=9, used_nano=one.used_nano + 5) for one in sets[::4]]
    return sets + again


def arrivals(sets: Sequence[ChargeSet]) -> list[Arrival]:
    """As they came: one each second."""
    return [Arrival(one, "gpu.charges", 0, offset, 1_000 * offset) for offset, one in enumerate(sets)]


def expected(begun: Round, sets: Sequence[ChargeSet], partition: int) -> Sheet:
    """The simple way: of each window what had come by then, or lies in the tail, counted by itself."""
    found = {}
    for arrival in arrivals(sets):
        key = NodeKey(arrival.charges.cluster, arrival.charges.node).key
        if partition_for_node(key, PARTITIONS) == partition and arrival.received_ms < (begun.before_ms or 0):
            one = charges_of(arrival.charges, arrival.offset, arrival.received_ms)
            if one.window not in found or found[one.window].revision < one.revision:
                found[one.window] = one
    found.update({one.window: one for one in begun.tail})
    sheet = Sheet()
    for window, one in found.items():
        begun.fill(CATALOG, sheet, window, window.start_ns + WINDOW_NS, one)
    return sheet


def amounts(sheet: Sheet) -> dict[object, object]:
    found: dict[object, object] = {
        place: (
            total.nano,
            total.gpu_ns,
            total.unconverted_nano,
            {d: a for d, a in total.drivers.items() if any(a)},
        )
        for place, total in sheet.totals.items()
        if total.nano or total.gpu_ns
    }
    found |= {place: amount for place, amount in sheet.buckets.items() if amount}
    courses = {("course", *place): amount for place, amount in sheet.course.items() if amount}
    return found | courses


@pytest.mark.parametrize("stored", ["all", "some", "none"])
def test_what_is_read_is_what_every_window_counted_that_had_come(warehouse: Warehouse, stored: str) -> None:
    sets = history()
    first = len(NODES) * 17
    writer = Writer(warehouse, SystemClock())
    came = arrivals(sets)
    writer.write(Batch(came[:first]))
    if stored != "none":
        writer.store_hours()
    writer.write(Batch(came[first:]))
    if stored == "all":
        writer.store_hours()
    for partition in range(PARTITIONS):
        count = PartitionCount(partition, CATALOG, position=first)
        count.counters.newest_end_ns = ACTIVE
        count.counters.tail_start_ms = 1_000 * (first + 4)  # four of those that were restated
        for arrival in came[first + 4 : first + 8]:
            key = NodeKey(arrival.charges.cluster, arrival.charges.node).key
            if partition_for_node(key, PARTITIONS) == partition:
                count.recall(charges_of(arrival.charges, arrival.offset, arrival.received_ms))
        begun = begin(count)
        assert begun is not None
        assert {reach.key.partition("@")[0] for reach in begun.reached.all} == {
            "old", "everything", "team-a", "used", "rolling", "euros", "idle", "paced"
        }  # fmt: skip
        found = Reading(warehouse, CATALOG, begun, lambda: None).base(partition, PARTITIONS)
        simple = expected(begun, sets, partition)
        assert amounts(found) == amounts(simple)
        by_length = defaultdict(int)
        for _, length_ns, _ in found.buckets:
            by_length[length_ns] += 1
        assert len(by_length) >= 2  # of burn rates and of forecasts


def test_a_window_that_had_not_come_is_not_read(warehouse: Warehouse) -> None:
    one = charge_set(ACTIVE - HOUR_NS - WINDOW_NS)
    Writer(warehouse, SystemClock()).write(Batch([Arrival(one, "gpu.charges", 0, 0, 5_000)]))
    count = PartitionCount(0, CATALOG, position=1)
    count.counters.tail_start_ms = 5_000
    begun = begin(count)
    assert begun is not None
    assert not amounts(Reading(warehouse, CATALOG, begun, lambda: None).base(0, 1))
    assert Window("c1", "n1", one.window_start_ns) not in {kept.window for kept in begun.tail}
