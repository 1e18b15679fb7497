"""Changes of breaches in ClickHouse: each once, whatever is written again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, apply_topics, framed, register_all
from gpuledger.contract.errors import Refused, WarehouseError
from gpuledger.contract.records import Breach, BreachDriver
from gpuledger.contract.topics import BREACHES
from gpuledger.localstack import Kafka, Registry
from gpuledger.sink import SinkOptions
from gpuledger.sink.breaches import Beside, follow, write
from gpuledger.sink.service import open_warehouse
from gpuledger.warehouse import Warehouse, connect
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from gpuledger.warehouse.migrations import load
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.warehouse"]

DAY_NS = 86_400 * 10**9


def breach(change: int, state: str = "firing", name: str = "b1") -> Breach:
    return Breach(
        id=name,
        change=change,
        state=state,
        budget_id="vision",
        budget_version=3,
        period_start_ns=20_000 * DAY_NS,
        period_end_ns=20_030 * DAY_NS,
        since_ns=20_003 * DAY_NS,
        window_start_ns=20_003 * DAY_NS - 1,
        spent_nano=1_000_000_001,
        amount_nano=10**9,
        currency="EUR",
        drivers=[BreachDriver("pod", "ns", "p-0", 5, 7)],
        scope={"team": "vision"},
        message="Vision has crossed 100%",
        silenced_until_ns=20_004 * DAY_NS,
    )


def test_a_change_that_is_written_twice_is_there_once(warehouse: Warehouse) -> None:
    write(warehouse, [(breach(1), 1_700_000_000_000), (breach(2, "resolved"), 1_700_000_000_001)])
    write(warehouse, [(breach(2, "resolved"), 1_700_000_000_001)])
    write(warehouse, [])
    rows = warehouse.rows(
        "SELECT change, state, spent, scope['team'], driver_name, driver_money, forecast_low, "
        "toUnixTimestamp64Milli(silenced_until) FROM breaches ORDER BY change"
    )
    assert [row[:2] for row in rows] == [(1, "firing"), (2, "resolved")]
    assert tuple(rows[0][2:]) == (
        Decimal("1.000000001"),
        "vision",
        ["p-0"],
        [Decimal("0.000000005")],
        None,
        20_004 * DAY_NS // 10**6,
    )


def test_what_is_told_on_kafka_is_in_the_view(
    new_kafka: Kafka, registry: Registry, warehouse: Warehouse, unique: Callable[[str], str]
) -> None:
    new_kafka.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)
    stop = threading.Event()
    refusals: list[Exception] = [Refused("no tables yet"), WarehouseError("no such database", 81)]

    def connect_at_last() -> Warehouse:
        if refusals:
            raise refusals.pop()
        return connect(warehouse.url)

    arguments = (bus, unique("group"), 6.0, connect_at_last, stop)
    thread = threading.Thread(target=follow, args=arguments)
    thread.start()  # before there is a topic
    try:
        with SchemaRegistry(bus) as schemas, Producer(bus, "test") as producer:
            register_all(schemas)
            apply_topics(bus, partitions=1, replication=1)
            records = [
                Outgoing(BREACHES, b"b", value, partition=0)
                for value in (framed(schemas, breach(1)), b"nonsense", framed(schemas, breach(2, "resolved")))
            ]
            producer.produce_all(records)
        query = "SELECT state FROM breaches ORDER BY change"
        until(lambda: [row[0] for row in warehouse.rows(query)] == ["firing", "resolved"])
    finally:
        stop.set()
        thread.join()


def test_whatever_ends_the_work_beside_ends_the_service_and_is_told() -> None:
    def break_down() -> None:
        raise ZeroDivisionError("a mistake of ours")

    stop = threading.Event()
    beside = Beside(break_down, stop)
    assert stop.wait(PATIENCE_S)
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        beside.close()


def test_threads_that_bring_the_tables_up_to_date_at_once_are_not_in_each_others_way(
    embedded: EmbeddedWarehouse, bus: BusSettings
) -> None:
    url = embedded.url.rpartition("/")[0] + "/made_by_many"
    with ThreadPoolExecutor(4) as threads:
        opened = [threads.submit(open_warehouse, SinkOptions(bus, url, migrate=True)) for _ in range(4)]
        warehouses = [one.result() for one in opened]
    (recorded,) = warehouses[0].rows("SELECT count(), uniqExact(number) FROM schema_migrations")
    assert recorded[0] == recorded[1] == len(load())
    for one in warehouses:
        one.close()
