"""The sink on a real broker, a real registry and a real ClickHouse engine: exact, whatever dies."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import pytest

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed
from gpuledger.contract.errors import GpuledgerError, Refused
from gpuledger.contract.records import ChargeSet, DeadLetter, decode_as
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka
from gpuledger.sink import SinkOptions, run
from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.charge_sets import WINDOW_NS, charge_set, ledger_of, recent_window_ns
from tests.support.kafka import create_topic
from tests.support.sink import committed, publish, sink_process
from tests.support.waiting import until

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns()
Unique = Callable[[str], str]


def ledger(warehouse: Warehouse) -> dict[tuple[str, int], tuple[int, int, Decimal | None]]:
    rows = warehouse.rows(
        "SELECT node, toUnixTimestamp64Nano(toDateTime64(window_start, 9)), count(), sum(used_ns), sum(used) "
        "FROM charges GROUP BY node, window_start"
    )
    return {(node, start): (count, ns, money) for node, start, count, ns, money in rows}


def history(count: int, seed: int = 23) -> list[ChargeSet]:
    """Windows of five nodes, a fifth of them restated, some withdrawn."""
    rng = random.Random(seed)
    return [
        charge_set(
            START + rng.randrange(max(1, count // 5)) * WINDOW_NS,
            rows,
            node=f"n{rng.randrange(5)}",
            inputs=inputs,
        )
        for inputs in (rng.randrange(1, 4) for _ in range(count))
        for rows in [(inputs * 5) % 4]
    ]


def test_every_set_is_in_the_ledger_and_then_acknowledged(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges"), partitions=3), unique("sink")
    sets = history(211)
    publish(bus, topic, sets)
    stop = threading.Event()
    worker = threading.Thread(
        target=run, args=(SinkOptions(bus, database_url, topic, group),), kwargs={"stop": stop}
    )
    worker.start()
    try:
        until(lambda: committed(bus, topic, group, 3) == 211)
        assert ledger(warehouse) == ledger_of(sets)
    finally:
        stop.set()
        worker.join()


def test_a_set_is_seen_without_another_one_behind_it(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    publish(bus, topic, [charge_set(START)])
    with sink_process(bus, database_url, topic, group):
        until(lambda: len(ledger(warehouse)) == 1)
        for number in range(1, 8):
            publish(bus, topic, [charge_set(START + number * WINDOW_NS)])
            until(partial(windows_seen, warehouse, number + 1))


def test_kill_9_at_any_time_loses_nothing_and_doubles_nothing(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges"), partitions=2), unique("sink")
    sets = history(1_009)
    rng = random.Random(7)
    publish(bus, topic, sets[:1])
    with sink_process(bus, database_url, topic, group):
        until(lambda: committed(bus, topic, group, 2) >= 1)
    for part in range(4):
        with sink_process(bus, database_url, topic, group) as sink:
            publish(bus, topic, sets[1 + part * 252 : 1 + (part + 1) * 252])
            time.sleep(1.0 + rng.random() * 3)
            sink.kill9()
    with sink_process(bus, database_url, topic, group) as last:
        publish(bus, topic, sets[-1:])  # so that the last one has work whatever was done before it
        until(lambda: committed(bus, topic, group, 2) == 1_010)
        assert last.terminate() == 0
    assert ledger(warehouse) == ledger_of(sets)
    assert hours_equal(warehouse)


def test_a_restart_between_insert_and_commit_doubles_nothing(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic = create_topic(kafka, unique("charges"))
    sets = history(101)
    publish(bus, topic, sets)
    # A group that forgot what it had committed is that restart, for every batch at once.
    for group in (unique("first"), unique("second")):
        with sink_process(bus, database_url, topic, group) as sink:
            until(partial(all_acknowledged, bus, topic, group, 101))
            assert sink.terminate() == 0
    assert ledger(warehouse) == ledger_of(sets)
    assert hours_equal(warehouse)


def test_two_sinks_share_the_work_and_one_dies(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges"), partitions=4), unique("sink")
    sets = history(603)
    with (
        sink_process(bus, database_url, topic, group) as first,
        sink_process(bus, database_url, topic, group),
    ):
        publish(bus, topic, sets[:301])
        until(lambda: committed(bus, topic, group, 4) > 0)
        first.kill9()
        publish(bus, topic, sets[301:])
        until(lambda: committed(bus, topic, group, 4) == 603)
    assert ledger(warehouse) == ledger_of(sets)


def test_clickhouse_away_loses_nothing_and_the_sink_stays_in_its_group(
    kafka: Kafka, bus: BusSettings, new_embedded: EmbeddedWarehouse, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    new_embedded.start()
    warehouse = connect(new_embedded.url, create_database=True)
    migrate(warehouse)
    sets = history(307)
    with sink_process(bus, new_embedded.url, topic, group) as sink:
        publish(bus, topic, sets[:100])
        until(lambda: committed(bus, topic, group, 1) == 100)
        new_embedded.kill9()
        publish(bus, topic, sets[100:])
        time.sleep(8)  # longer than the session
        assert sink.process.poll() is None
        assert committed(bus, topic, group, 1) == 100
        new_embedded.start()
        until(lambda: committed(bus, topic, group, 1) == 307)
        assert sink.terminate() == 0
    assert ledger(warehouse) == ledger_of(sets)
    warehouse.close()


def test_a_record_that_can_not_be_read_is_kept_whole_and_does_not_stop_the_others(
    kafka: Kafka,
    bus: BusSettings,
    warehouse: Warehouse,
    database_url: str,
    unique: Unique,
    dead_letter_topic: str,
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    good = [charge_set(START), charge_set(START + WINDOW_NS)]
    twice = charge_set(START + 2 * WINDOW_NS, pods=["a", "a"])
    registry = SchemaRegistry(bus)
    values = [
        framed(registry, good[0]),
        b"\x00garbage",
        framed(registry, twice),
        b"",
        framed(registry, good[1]),
    ]
    with Producer(bus, "test") as producer:
        producer.produce_all(Outgoing(topic, b"c1/n1", value) for value in values)
        producer.produce_all([Outgoing(topic, b"c1/other", framed(registry, charge_set(START, inputs=9)))])
    with sink_process(bus, database_url, topic, group):
        until(lambda: committed(bus, topic, group, 1) == 6)
    assert ledger(warehouse) == ledger_of(good)
    with PartitionReader(bus, "test") as reader:
        letters = []
        partitions = range(reader.partitions(dead_letter_topic))
        for record in (r for number in partitions for r in reader.read_to_end(dead_letter_topic, number)):
            schema_id, body = unframe(record.value or b"")
            letters.append(decode_as(DeadLetter, body, registry.schema(schema_id)))
    mine = {letter.source_offset: letter for letter in letters if letter.source_topic == topic}
    assert sorted(mine) == [1, 2, 3, 5]
    assert mine[1].value == b"\x00garbage"
    assert (mine[2].reason, mine[2].stage, mine[5].reason) == ("duplicate_row", "sink", "wrong_key")
    registry.close()


def test_a_warehouse_without_its_tables_stops_the_sink_before_it_reads(
    kafka: Kafka, bus: BusSettings, embedded: EmbeddedWarehouse, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    publish(bus, topic, [charge_set(START)])
    url = embedded.url.rpartition("/")[0] + "/empty_database"
    connect(url, create_database=True).close()
    with pytest.raises(Refused, match="warehouse migrate"):
        run(SinkOptions(bus, url, topic, group), stop=threading.Event())
    assert committed(bus, topic, group, 1) == 0


def test_rows_that_clickhouse_will_never_take_stop_the_sink_without_a_commit(
    kafka: Kafka, bus: BusSettings, warehouse: Warehouse, database_url: str, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    publish(bus, topic, [charge_set(START)])
    warehouse.command("DROP TABLE charge_rows")
    with pytest.raises(GpuledgerError, match="UNKNOWN_TABLE"):
        run(SinkOptions(bus, database_url, topic, group), stop=threading.Event())
    assert committed(bus, topic, group, 1) == 0


def windows_seen(warehouse: Warehouse, count: int) -> bool:
    return len(ledger(warehouse)) == count


def all_acknowledged(bus: BusSettings, topic: str, group: str, count: int) -> bool:
    return committed(bus, topic, group, 1) == count


def hours_equal(warehouse: Warehouse) -> bool:
    query = "SELECT node, hour, consumer, windows, used_ns, used, total FROM {} ORDER BY ALL"
    return warehouse.rows(query.format("charges_hourly")) == warehouse.rows(query.format("charges_by_hour"))
