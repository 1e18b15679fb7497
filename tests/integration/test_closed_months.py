"""What is booked of closed months, in the embedded ClickHouse: against the definition, whoever writes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from gpuledger.contract.clock import SystemClock
from gpuledger.contract.periods import following, period_of
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.booked_months import Amounts, Ledger
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]
START = recent_window_ns()
OWN = period_of(START)
NEXT, THIRD = following(OWN), following(following(OWN))
PAGE = (Path(__file__).parents[2] / "docs" / "periods.md").read_text()
Invoices = dict[tuple[str, str], Decimal]  # by month and team


class Months:
    """Which month is closed, for the writers of a test."""

    def __init__(self) -> None:
        self.closed = ""

    def through(self, at_ns: int) -> str:
        return self.closed

    def close(self) -> None:
        self.closed = following(self.closed) if self.closed else OWN


def batch(*sets: ChargeSet) -> Batch:
    return Batch([arrival(one, number) for number, one in enumerate(sets)])


def invoices(warehouse: Warehouse, where: str = "1") -> Invoices:
    rows = warehouse.rows(
        f"SELECT booking_period, team, sum(b.total) FROM bookings AS b WHERE {where} GROUP BY 1, 2"
    )
    return {(period, team): money for period, team, money in rows if money}


def assert_months_sum_to_the_recomputation(warehouse: Warehouse) -> None:
    sums = "cluster, node, hour, team, sum(x.total), sum(x.used_ns), sum(x.total_ns)"
    both = [
        {tuple(row) for row in warehouse.rows(f"SELECT {sums} FROM {view} AS x GROUP BY 1, 2, 3, 4")}
        for view in ("bookings", "charges_hourly")
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize("stored", [False, True], ids=["hours-summed-by-the-query", "hours-stored-before"])
def test_a_consumer_that_changes_team_after_the_close_moves_the_open_month_alone(
    warehouse: Warehouse, stored: bool
) -> None:
    """4 for each of two pods; one of them goes to team b later, and its window costs 4.5: -4 and +4.5."""
    months = Months()
    writer = Writer(warehouse, SystemClock(), months.through)
    each = {"nano": 10**9}  # four amounts of a row at 1 each
    writer.write(batch(charge_set(START, pods=["stays", "other", "moves"], **each)))
    if stored:
        writer.store_hours()
    before = invoices(warehouse)
    assert before == {(OWN, "team-a"): Decimal(8), (OWN, "team-b"): Decimal(4)}
    months.close()
    changed = charge_set(START, pods=["stays", "moves"], inputs=6, **each)
    changed.used_nano[1] += 5 * 10**8
    writer.write(batch(changed))
    for _ in range(2):
        assert invoices(warehouse) == before | {
            (NEXT, "team-a"): Decimal(-4),
            (NEXT, "team-b"): Decimal("0.5"),
        }
        assert_months_sum_to_the_recomputation(warehouse)
        writer.store_hours()
    rows = warehouse.rows(
        "SELECT consumer, team, correction, b.total FROM bookings AS b WHERE booking_period != {own:String} "
        "AND b.total != 0 ORDER BY 1, 2",
        {"own": OWN},
    )
    assert [tuple(row) for row in rows] == [
        ("moves", "team-a", 1, Decimal(-4)),
        ("moves", "team-b", 1, Decimal("4.5")),
        ("other", "team-b", 1, Decimal(-4)),
    ]


def test_a_month_that_nothing_changes_is_booked_as_it_was(warehouse: Warehouse) -> None:
    months = Months()
    writer = Writer(warehouse, SystemClock(), months.through)
    writer.write(batch(charge_set(START)))
    before = invoices(warehouse)
    months.close()
    writer.write(batch(charge_set(START)))  # the same set, read again after a crash
    assert invoices(warehouse) == before
    assert {period for period, _ in before} == {OWN}
    other = charge_set(START + HOUR_NS) if period_of(START + HOUR_NS) == OWN else charge_set(START - HOUR_NS)
    writer.write(batch(other))
    assert {period for period, _ in invoices(warehouse)} == {OWN, NEXT}


def test_a_writer_that_dies_between_any_two_steps_keeps_what_was_booked(warehouse: Warehouse) -> None:
    months = Months()
    first = batch(charge_set(START))
    Writer(warehouse, SystemClock(), months.through).write(first)
    before = invoices(warehouse)
    months.close()
    second = batch(charge_set(START, inputs=6))
    for steps in range(1, 5):
        dying = Writer(warehouse, SystemClock(), months.through)
        steps_of = [
            partial(dying.write_rows, second),
            partial(dying.keep_booked, second.arrivals),
            partial(dying.mark, second.arrivals),
            partial(dying.publish, second),
        ]
        for step in steps_of[:steps]:
            step()
        found = {key: money for key, money in invoices(warehouse).items() if key[0] == OWN}
        assert found == before
        assert_months_sum_to_the_recomputation(warehouse)


def test_a_writer_that_comes_second_does_not_take_the_change_for_what_was_booked(
    warehouse: Warehouse,
) -> None:
    """A zombie whose batch was under way while its successor wrote the same."""
    months = Months()
    Writer(warehouse, SystemClock(), months.through).write(batch(charge_set(START)))
    before = invoices(warehouse)
    months.close()
    change = batch(charge_set(START, inputs=6))
    Writer(warehouse, SystemClock(), months.through).write(change)
    warehouse.command(
        "INSERT INTO charge_bookings SELECT cluster, node, hour, {own:String}, {own:String}, version "
        "FROM charge_hours FINAL",
        {"own": OWN},
    )  # what it had read: the hour as its successor left it
    Writer(warehouse, SystemClock(), months.through).store_hours()
    found = {key: money for key, money in invoices(warehouse).items() if key[0] == OWN}
    assert found == before
    assert_months_sum_to_the_recomputation(warehouse)


def test_what_came_before_the_close_is_booked_though_it_is_written_with_what_came_behind(
    warehouse: Warehouse,
) -> None:
    """One batch, as of a sink that stood still: 4 a pod, then 8 before the close and 12 behind it."""
    sets = [charge_set(START, pods=["p"], inputs=inputs, nano=inputs * 10**9) for inputs in (1, 2, 3)]
    first, before, behind = (
        replace(arrival(one, number), received_ms=number) for number, one in enumerate(sets)
    )
    writer = Writer(warehouse, SystemClock(), lambda at_ns: OWN if at_ns >= 2 * 10**6 else "")
    writer.write(Batch([first]))
    assert writer.write(Batch([before, behind])) == 2
    assert invoices(warehouse) == {(OWN, "team-a"): Decimal(8), (NEXT, "team-a"): Decimal(4)}
    assert_months_sum_to_the_recomputation(warehouse)


def test_an_hour_that_is_first_charged_after_the_close_is_a_correction_whole(warehouse: Warehouse) -> None:
    months = Months()
    months.close()
    Writer(warehouse, SystemClock(), months.through).write(batch(charge_set(START)))
    assert {period for period, _ in invoices(warehouse)} == {NEXT}
    assert {period for period, _ in invoices(warehouse, "correction = 0")} == set()
    assert_months_sum_to_the_recomputation(warehouse)


@pytest.mark.parametrize("seed", range(3))
def test_months_are_booked_as_they_are_defined(warehouse: Warehouse, seed: int) -> None:
    """Random restatements, closes, stored hours and new writers; windows of two nodes in one hour each."""
    rng = random.Random(seed)
    months, wanted = Months(), [_ledger(), _ledger()]
    writer = Writer(warehouse, SystemClock(), months.through)
    sets: list[dict[int, ChargeSet]] = [{}, {}]
    for inputs in range(1, 13):
        what = rng.choice(["restate", "restate", "close", "store", "replace"])
        if what == "close" and months.closed < THIRD:
            months.close()
            for ledger in wanted:
                ledger.close()
        elif what == "store":
            writer.store_hours()
        elif what == "replace":
            writer = Writer(warehouse, SystemClock(), months.through)
        else:
            node = rng.randrange(2)
            at = START + rng.randrange(3) * WINDOW_NS
            pods = rng.sample(["p", "q", "r", "s"], rng.randrange(5))
            sets[node][at] = charge_set(at, node=f"n{node}", pods=pods, inputs=inputs)
            writer.write(batch(sets[node][at]))
            wanted[node].restate(0, _amounts(list(sets[node].values())))
    assert_months_sum_to_the_recomputation(warehouse)
    for node, ledger in enumerate(wanted):
        found = invoices(warehouse, f"node = 'n{node}'")
        assert found == {key: Decimal(nano).scaleb(-9) for key, nano in ledger.booked(0).items() if nano}


def _ledger() -> Ledger:
    return Ledger(hours=(OWN,), first=OWN)


def _amounts(sets: Sequence[ChargeSet]) -> Amounts:
    found: Amounts = {}
    for one in sets:
        for row, team in enumerate(one.team.tolist()):
            name = one.texts[team]
            columns = (one.used_nano, one.held_idle_nano, one.unallocated_nano, one.unobserved_nano)
            found[name] = found.get(name, 0) + sum(int(column[row]) for column in columns)
    return found


def test_the_queries_of_the_page_are_answered(warehouse: Warehouse) -> None:
    """Of a month with 4 for each of three pods, one of which cost 1 more after it was closed."""
    months = Months()
    writer = Writer(warehouse, SystemClock(), months.through)
    writer.write(batch(charge_set(START, nano=10**9)))
    months.close()
    dearer = charge_set(START, nano=10**9, inputs=6)
    dearer.held_idle_nano[2] += 10**9
    writer.write(batch(dearer))
    queries = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    invoice, corrections = (warehouse.rows(query.replace("2026-12", NEXT)) for query in queries)
    one = Decimal(1)
    assert [tuple(row) for row in invoice if row[-1]] == [("team-a", "", "USD", 0, one, one)]
    assert [(row[0], row[3], row[4], row[6]) for row in corrections if row[6]] == [
        (OWN, "pod-2", "team-a", one)
    ]
