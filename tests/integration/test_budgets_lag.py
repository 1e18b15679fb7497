"""Up to when budgets are counted, as the engine shows it over a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faust.types import TP
from prometheus_client import REGISTRY

from gpuledger.budgets import metrics
from gpuledger.budgets.engine import Engine
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings, Incoming, PartitionReader
from gpuledger.contract.topics import CHARGES
from tests.support.budget_workers import Ledger, spent
from tests.support.charge_sets import WINDOW_NS

CAUGHT_UP = "gpuledger_budgets_caught_up_timestamp_seconds"


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
def engine(own_bus: BusSettings, tmp_path: Path) -> Iterator[Engine]:
    metrics.CAUGHT_UP_SECONDS.clear()  # of other engines in this process
    settings = BudgetSettings(application="lag-under-test", state_interval_s=0.1, data_directory=tmp_path)
    engine = Engine(own_bus, settings, "clickhouse://nobody@127.0.0.1:1/none")
    yield engine
    engine.close()
    assert [caught_up(partition) for partition in range(2)] == [None, None]


def caught_up(partition: int) -> float | None:
    return REGISTRY.get_sample_value(CAUGHT_UP, {"partition": str(partition)})


def charged(bus: BusSettings) -> list[Incoming]:
    """Two records of one node."""
    ledger = Ledger(bus)
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    ledger.charge([spent("n1", start + number * WINDOW_NS, 1) for number in range(2)])
    ledger.close()
    with PartitionReader(bus, "test-lag") as reader:
        return [record for number in range(2) for record in reader.read_to_end(CHARGES, number)]


def test_a_partition_is_counted_up_to_its_last_record_or_up_to_now_where_none_is_left(
    own_bus: BusSettings, engine: Engine
) -> None:
    first, second = charged(own_bus)
    busy, quiet = first.partition, 1 - first.partition
    engine.supersede(1)
    engine.assign(1, [TP(CHARGES, 0), TP(CHARGES, 1)])
    assert caught_up(busy) is caught_up(quiet) is None
    before_s = time.time()
    engine.feed(1, [first])
    while caught_up(quiet) is None:  # each state interval looks once
        engine.tick(1)
    assert caught_up(busy) == first.timestamp_ms / 1_000
    assert (caught_up(quiet) or 0) >= before_s

    engine.feed(1, [second._replace(value=b"no charges")])  # refused, and still not waited for
    time_s = caught_up(busy)
    assert time_s == second.timestamp_ms / 1_000
    while caught_up(busy) == time_s:
        engine.tick(1)
    assert (caught_up(busy) or 0) >= before_s

    engine.supersede(2)
    engine.assign(2, [TP(CHARGES, quiet)])
    assert caught_up(busy) is None
