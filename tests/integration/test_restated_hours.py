"""A generation that restates hours: of each hour a query finds all as it was, or all as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuledger.contract.clock import ManualClock, SystemClock
from gpuledger.contract.records import ChargeSet, Generation
from gpuledger.contract.windows import NS_PER_S
from gpuledger.sink.batcher import Batch
from gpuledger.sink.waiting import QUIET_S
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]
START = recent_window_ns(5)
NODES = ("n1", "n2", "n3")
WINDOWS = 30
SECOND = 2 * HOUR_NS  # the second hour of the range


class Ledger:
    """Windows of three nodes at the beginning of two hours, and generations of them."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.clock = ManualClock(START + 10 * HOUR_NS, 10**15)
        self.generations: dict[int, Generation] = {}
        self.writer = self.another_writer()
        self.starts = [START + hour + n * WINDOW_NS for hour in (0, SECOND) for n in range(WINDOWS)]

    def another_writer(self) -> Writer:
        return Writer(self.warehouse, self.clock, generation_of=lambda number: self.generations.get(number))

    def announce(self, number: int, from_ns: int, to_ns: int, *clusters: str) -> None:
        self.generations[number] = Generation(number, 0, from_ns, to_ns, 1, 0, list(clusters))

    def sets(self, generation: int, nodes: Sequence[str] = NODES, inputs: int = 5) -> list[ChargeSet]:
        return [
            charge_set(at, node=node, generation=generation, inputs=inputs)
            for node in nodes
            for at in self.starts
        ]

    def write(self, sets: Sequence[ChargeSet], writer: Writer | None = None) -> None:
        (writer or self.writer).write(Batch([arrival(one, n) for n, one in enumerate(sets)]))

    def look(self, writer: Writer | None = None, after_s: float = 60) -> None:
        """As the sink does when it has nothing else to do, a while later."""
        self.clock.advance(int(after_s * NS_PER_S))
        (writer or self.writer).show_waiting()

    def shown(self) -> dict[int, set[int]]:
        """The generations that a query finds, by hour of the range."""
        rows = self.warehouse.rows(
            "SELECT toUnixTimestamp(toStartOfHour(window_start)), bitShiftRight(revision, 48) FROM charges "
            "GROUP BY 1, 2"
        )
        found: dict[int, set[int]] = {}
        for hour_s, generation in rows:
            found.setdefault((hour_s * NS_PER_S - START) // HOUR_NS, set()).add(int(generation))
        return found


@pytest.fixture
def ledger(warehouse: Warehouse) -> Ledger:
    found = Ledger(warehouse)
    found.write(found.sets(0))
    found.announce(1, START, START + 4 * HOUR_NS)
    return found


def test_an_hour_is_shown_when_its_last_window_is_restated(ledger: Ledger) -> None:
    """Hour by hour, whatever order the windows come in; sums by hour follow."""
    restated = ledger.sets(1)
    last = {START: restated.pop(0), START + SECOND: restated.pop(WINDOWS - 1)}
    for at in range(0, len(restated), 60):
        ledger.write(restated[at : at + 60])
        ledger.look()
        assert ledger.shown() == {0: {0}, 2: {0}}
    ledger.writer.store_hours()
    ledger.write([last[START]])
    ledger.look()
    assert ledger.shown() == {0: {1}, 2: {0}}
    ledger.write([last[START + SECOND]])
    ledger.look()
    assert ledger.shown() == {0: {1}, 2: {1}}
    for store in (False, True):
        if store:
            ledger.writer.store_hours()
        sums = [
            ledger.warehouse.rows(f"SELECT sum(x.total), sum(x.used_ns) FROM {view} AS x")
            for view in ("charges", "charges_hourly")
        ]
        assert sums[0] == sums[1]


def test_the_heads_of_an_hour_come_in_one_part(ledger: Ledger) -> None:
    """Which is what makes them seen at once."""
    ledger.warehouse.command("SYSTEM STOP MERGES charge_windows")
    before = ledger.warehouse.rows(PARTS)
    ledger.write(ledger.sets(1))
    ledger.look()
    after = ledger.warehouse.rows(PARTS)
    ledger.warehouse.command("SYSTEM START MERGES charge_windows")
    assert len(after) == len(before) + 2  # one for each hour
    assert sorted(row[1] for row in after if row not in before) == [WINDOWS * len(NODES)] * 2


PARTS = (
    "SELECT name, rows FROM system.parts WHERE database = currentDatabase() AND table = 'charge_windows' "
    "AND active"
)


def test_what_is_outside_of_the_range_keeps_nobody_waiting(warehouse: Warehouse) -> None:
    """Half an hour, and one of two clusters."""
    ledger = Ledger(warehouse)
    ledger.write(ledger.sets(0))
    other = charge_set(START, node="n9")
    other.cluster = "elsewhere"
    ledger.write([other])
    ledger.announce(1, START, START + 10 * WINDOW_NS, "c1")
    inside = [one for one in ledger.sets(1) if one.window_start_ns < START + 10 * WINDOW_NS]
    ledger.write(inside[:-1])
    ledger.look()
    assert ledger.shown()[0] == {0}
    ledger.write(inside[-1:])
    ledger.look()
    assert warehouse.rows("SELECT count() FROM charge_windows FINAL WHERE generation = 1")[0][0] == len(
        inside
    )


def test_new_windows_and_late_records_are_shown_at_once(ledger: Ledger) -> None:
    """The first hour is restated, the second is not: a window that is new, and a late record in the first."""
    ledger.write([one for one in ledger.sets(1) if one.window_start_ns < START + HOUR_NS])
    ledger.look()
    new = charge_set(START + SECOND + 100 * WINDOW_NS, generation=1)
    late = charge_set(START, generation=1, inputs=6)
    waits = charge_set(START + SECOND, generation=1)
    ledger.write([new, late, waits])
    ledger.look()
    rows = ledger.warehouse.rows(
        "SELECT toUnixTimestamp(window_start), inputs FROM charge_windows FINAL "
        "WHERE generation = 1 AND node = 'n1' AND (inputs = 6 OR window_start >= {second:DateTime})",
        {"second": (START + SECOND) // NS_PER_S},
    )
    shown = {(at_s * NS_PER_S, inputs) for at_s, inputs in rows}
    assert shown == {(new.window_start_ns, 5), (late.window_start_ns, 6)}
    assert waits.window_start_ns == START + SECOND


def test_another_writer_shows_what_one_that_died_left(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ledger.another_writer(), ledger.another_writer()
    restated = ledger.sets(1)
    ledger.write(restated[:-1], first)
    monkeypatch.setattr(second, "show_waiting", lambda: None)  # it dies before
    ledger.write(restated[-1:], second)
    assert 1 not in ledger.shown()[2]
    heir = ledger.another_writer()
    ledger.look(heir)
    assert ledger.shown() == {0: {1}, 2: {1}}
    ledger.look(first)
    assert not first.waits


def test_a_generation_upon_another_waits_for_its_own_windows(ledger: Ledger) -> None:
    """The second is announced while the first is under way: workers go on with the second alone."""
    ledger.write(ledger.sets(1, NODES[:1]))
    ledger.announce(2, START, START + 4 * HOUR_NS)
    ledger.write(ledger.sets(2, NODES[1:]))
    ledger.look()
    assert ledger.shown() == {0: {0}, 2: {0}}
    ledger.write(ledger.sets(2, NODES[:1]))
    ledger.look()
    assert ledger.shown() == {0: {2}, 2: {2}}


def test_an_hour_of_which_nothing_more_comes_is_shown_after_a_while(ledger: Ledger) -> None:
    ledger.write(ledger.sets(1)[1:])
    ledger.look(after_s=QUIET_S / 2)
    assert ledger.shown()[0] == {0}
    ledger.look(after_s=QUIET_S)
    assert ledger.shown()[0] == {0, 1}


def test_a_generation_that_nobody_announced_waits_for_nothing(warehouse: Warehouse) -> None:
    writer = Writer(warehouse, SystemClock())
    for number, one in enumerate((charge_set(START), charge_set(START, generation=3))):
        writer.write(Batch([arrival(one, number)]))
    assert warehouse.rows("SELECT DISTINCT bitShiftRight(revision, 48) FROM charges") == [(3,)]


def test_what_waits_has_the_columns_of_what_is_shown(warehouse: Warehouse) -> None:
    """In their order: an hour is moved by INSERT SELECT."""
    both = [warehouse.rows(f"DESCRIBE {table}") for table in ("charge_windows", "charge_windows_waiting")]
    assert [row[:2] for row in both[0]] == [row[:2] for row in both[1]]
