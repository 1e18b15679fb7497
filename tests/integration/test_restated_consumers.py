"""A consumer that vanishes, or changes team, in a restatement: no ghost, in windows, hours and totals."""

from __future__ import annotations

import pytest

from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import WINDOW_NS, arrival, charge_set, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]
START = recent_window_ns()
BEFORE = ["stays", "vanishes", "changes"]  # teams a, b, a
AFTER = ["stays", "changes"]  # teams a, b


def write(writer: Writer, offset: int, *sets: ChargeSet) -> None:
    writer.write(Batch([arrival(charges, offset + number) for number, charges in enumerate(sets)]))


def teams(warehouse: Warehouse, view: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in warehouse.rows(f"SELECT DISTINCT consumer, team FROM {view} ORDER BY ALL")]


@pytest.mark.parametrize("stored", [False, True], ids=["hours-summed-by-the-query", "hours-stored-before"])
def test_a_consumer_that_vanishes_or_changes_team_leaves_nothing_behind(
    warehouse: Warehouse, stored: bool
) -> None:
    writer = Writer(warehouse, SystemClock())
    windows = [START + number * WINDOW_NS for number in range(3)]
    write(writer, 0, *(charge_set(at, pods=BEFORE, inputs=1) for at in windows))
    if stored:
        assert writer.store_hours() > 0
    assert ("vanishes", "team-b") in teams(warehouse, "charges_hourly")
    assert ("changes", "team-a") in teams(warehouse, "charges_hourly")
    write(writer, 10, *(charge_set(at, pods=AFTER, inputs=2) for at in windows))
    wanted = [("changes", "team-b"), ("stays", "team-a")]
    for store in (False, True):
        if store:
            assert writer.store_hours() > 0
        assert teams(warehouse, "charges") == wanted
        assert teams(warehouse, "charges_hourly") == wanted
        totals = [warehouse.rows(f"SELECT sum(total) FROM {view}") for view in ("charges", "charges_hourly")]
        assert totals[0] == totals[1]
