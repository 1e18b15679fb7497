"""The regular run of `gpuledger prices commitments`, over a real broker, registry and embedded ClickHouse."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gpuledger.attribution import charge_window
from gpuledger.bus import BusSettings, Incoming, PartitionReader, SchemaRegistry, unframed
from gpuledger.configuration import commitments_metrics as metrics
from gpuledger.configuration.cli import app as config_app
from gpuledger.configuration.commitments import Commitments, keep_published
from gpuledger.configuration.prices_cli import app as prices_app
from gpuledger.configuration.publish import Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, KafkaUnavailable, Refused, exit_status
from gpuledger.contract.records import ChargeSet, Holder, NodeLayout, Pod, PriceBookVersion
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing import Prices, Teams
from gpuledger.pricing.check import day
from gpuledger.sink.batcher import Batch
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse, migrate
from gpuledger.warehouse.client import connect
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.charge_sets import HOUR_NS, arrival, recent_window_ns
from tests.support.charging import WINDOW, Calls, gpu, state, window
from tests.support.waiting import until

pytest_plugins = ["tests.support.warehouse", "tests.support.empty_ledger"]

START = recent_window_ns()
MINUTES = 3
PRICES = """\
kind: prices
commitments:
  - id: three
    per: node
    quantity: 3
    price_per_hour: 48
    match: {node_pool: gold}
    effective_from: 2025-07-01
    effective_to: 2100-01-01
"""
"""2.40 a minute, of which each node that runs uses 0.80."""


@pytest.fixture
def book(ledger: BusSettings, warehouse: Warehouse, tmp_path: Path) -> PriceBookVersion:
    """The price list above, published for all times."""
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    done = CliRunner(env=places(ledger, str(warehouse.url))).invoke(config_app, ["apply", str(path), "--yes"])
    assert done.exception is None, done.exception
    (version,) = Documents(ledger, SystemClock()).versions(PriceBookVersion)
    assert isinstance(version, PriceBookVersion)
    return version


def places(ledger: BusSettings, url: str) -> dict[str, str]:
    return {
        "GPULEDGER_KAFKA_BOOTSTRAP": ledger.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": ledger.registry_url,
        "GPULEDGER_WAREHOUSE_URL": url,
    }


def run(ledger: BusSettings, url: str, *options: str) -> Result:
    """`gpuledger prices commitments`."""
    return CliRunner(env=places(ledger, url)).invoke(prices_app, ["commitments", *options])


def publish(ledger: BusSettings, warehouse: Warehouse) -> int:
    """The regular run over the first three minutes of START; how many minutes it published."""
    times = ["--from", day(START), "--to", day(START + MINUTES * MINUTE_NS)]
    return published(ledger, warehouse, *times)


def published(ledger: BusSettings, warehouse: Warehouse, *options: str) -> int:
    done = run(ledger, str(warehouse.url), "--publish", "--json", *options)
    assert done.exception is None, done.exception
    return int(json.loads(done.stdout)["published_minutes"])


def charge(
    warehouse: Warehouse, book: PriceBookVersion, node: str, minutes: int = MINUTES
) -> list[ChargeSet]:
    """A node of the pool is charged for so many minutes."""
    layout = NodeLayout(instance_type="p5", node_pool="gold", gpu_count=1, devices=[gpu(0)])
    holders, pods = [Holder("uid", 0)], [Pod("uid", "shop", "web-1")]
    sets = []
    for start in range(START, START + minutes * MINUTE_NS, WINDOW):
        keyframe = state(layout, holders, pods=pods, start=start)
        records = window([keyframe], [Calls([]).batch(start=start)], start=start)
        sets.append(replace(charge_window(records, Prices([book]), Teams([])).record, node=node))
    write(warehouse, [arrival(one, offset) for offset, one in enumerate(sets)])
    return sets


def write(warehouse: Warehouse, arrivals: list[Arrival]) -> None:
    writer = Writer(warehouse, SystemClock())
    writer.write(Batch(arrivals))
    writer.store_hours()


def charges(ledger: BusSettings) -> list[Incoming]:
    """gpu.charges as it is: of one key, so of one partition."""
    with PartitionReader(ledger, "test") as reader:
        found = [list(reader.read_to_end(CHARGES, n)) for n in range(reader.partitions(CHARGES))]
    (records,) = [one for one in found if one] or [[]]
    return records


def sink(ledger: BusSettings, warehouse: Warehouse) -> None:
    """What the sink does: all of gpu.charges is written, repeats too."""
    with SchemaRegistry(ledger) as registry:
        sets = [(one, unframed(ChargeSet, one.value, registry)) for one in charges(ledger)]
    write(warehouse, [Arrival(s, CHARGES, m.partition, m.offset, m.timestamp_ms) for m, s in sets])


def amounts(warehouse: Warehouse) -> tuple[Decimal, Decimal]:
    """Used and unused of the commitment in the ledger."""
    query = "SELECT sumIf(c.total, node != '-'), sumIf(c.total, node = '-') FROM charges AS c"
    ((used, unused),) = warehouse.rows(query)
    return used or Decimal(0), unused or Decimal(0)


def test_the_same_hours_give_the_same_bytes_and_nothing_once_the_ledger_has_them(
    ledger: BusSettings, warehouse: Warehouse, book: PriceBookVersion
) -> None:
    """One of three nodes runs: of 7.20 in three minutes 2.40 are used and 4.80 are not."""
    charge(warehouse, book, "n1")
    assert publish(ledger, warehouse) == MINUTES
    assert publish(ledger, warehouse) == MINUTES  # the sink has not come to it yet
    values = [one.value for one in charges(ledger)]
    assert values[:MINUTES] == values[MINUTES:]
    sink(ledger, warehouse)
    assert amounts(warehouse) == (Decimal("2.4"), Decimal("4.8"))
    assert publish(ledger, warehouse) == 0
    assert len(charges(ledger)) == 2 * MINUTES


def test_late_data_restates_the_minutes_that_it_changes_and_no_other(
    ledger: BusSettings, warehouse: Warehouse, book: PriceBookVersion
) -> None:
    """A second node's spool of two minutes comes late: 1.60 more are used, and 1.60 less are not."""
    charge(warehouse, book, "n1")
    publish(ledger, warehouse)
    sink(ledger, warehouse)
    charge(warehouse, book, "n2", minutes=2)
    assert publish(ledger, warehouse) == 2
    sink(ledger, warehouse)
    assert amounts(warehouse) == (Decimal("4.0"), Decimal("3.2"))


def test_windows_that_are_withdrawn_are_given_back_though_fewer_inputs_are_left(
    ledger: BusSettings, warehouse: Warehouse, book: PriceBookVersion
) -> None:
    """That n2 had ended before is told late: what it used was not used. Fewer inputs than before say so, and
    they hold all the same."""
    charge(warehouse, book, "n1")
    ended = charge(warehouse, book, "n2")
    publish(ledger, warehouse)
    sink(ledger, warehouse)
    assert amounts(warehouse) == (Decimal("4.8"), Decimal("2.4"))
    withdrawn = [
        ChargeSet(
            cluster=one.cluster,
            node=one.node,
            window_start_ns=one.window_start_ns,
            window_length_ns=one.window_length_ns,
            generation=0,
            inputs=one.inputs + 1,
            digest=1,
            core_version=one.core_version,
            state="ended",
        )
        for one in ended
    ]
    write(warehouse, [arrival(one, 100 + offset) for offset, one in enumerate(withdrawn)])
    assert amounts(warehouse) == (Decimal("2.4"), Decimal("2.4"))
    for lacking in (MINUTES, 0):
        assert publish(ledger, warehouse) == lacking
        sink(ledger, warehouse)
        assert amounts(warehouse) == (Decimal("2.4"), Decimal("4.8"))
    charge_again = [replace(one, inputs=one.inputs + 2) for one in ended]
    write(warehouse, [arrival(one, 200 + offset) for offset, one in enumerate(charge_again)])
    assert publish(ledger, warehouse) == MINUTES
    sink(ledger, warehouse)
    assert amounts(warehouse) == (Decimal("4.8"), Decimal("2.4"))


def test_a_commitment_that_no_longer_holds_is_withdrawn(
    ledger: BusSettings, warehouse: Warehouse, book: PriceBookVersion, tmp_path: Path
) -> None:
    """Windows are restated with a price list that has it no more."""
    sets = charge(warehouse, book, "n1")
    publish(ledger, warehouse)
    sink(ledger, warehouse)
    assert amounts(warehouse)[1] == Decimal("4.8")
    path = tmp_path / "other.yaml"
    path.write_text(PRICES.replace("id: three", "id: later").replace("2025-07-01", "2099-01-01"))
    done = CliRunner(env=places(ledger, str(warehouse.url))).invoke(config_app, ["apply", str(path), "--yes"])
    assert done.exception is None, done.exception
    restated = [replace(one, generation=1, price_version=2) for one in sets]
    write(warehouse, [arrival(one, 100 + offset) for offset, one in enumerate(restated)])
    assert publish(ledger, warehouse) == MINUTES
    sink(ledger, warehouse)
    assert amounts(warehouse)[1] == 0
    assert publish(ledger, warehouse) == 0


def test_without_a_commitment_the_regular_run_has_nothing_to_do_and_does_not_fail(
    ledger: BusSettings, warehouse: Warehouse
) -> None:
    assert published(ledger, warehouse) == 0
    told = run(ledger, str(warehouse.url), "--publish")
    assert told.exit_code == 0
    assert "No published price list has a commitment" in told.stdout
    assert isinstance(run(ledger, str(warehouse.url)).exception, Refused)


def test_what_can_not_be_meant_is_refused_with_the_option_s_name(ledger: BusSettings) -> None:
    url = "clickhouse://127.0.0.1:1/gpuledger"
    for options, place in (
        (["--back", "soon"], "--back"),
        (["--back", "36d"], "--back"),
        (["--from", "2100-01-01"], "--from"),
        (["--every", "1h"], "--every"),
        (["--publish", "--every", "1h", "--to", "2026-01-01"], "--every"),
        (["--publish", "--every", "soon"], "--every"),
    ):
        error = run(ledger, url, *options).exception
        assert isinstance(error, ConfigError)
        assert error.where == place


def test_a_run_that_finds_kafka_away_says_so_by_its_exit_code(warehouse: Warehouse) -> None:
    away = BusSettings(kafka_bootstrap="127.0.0.1:1", registry_url="http://127.0.0.1:1")
    error = run(away, str(warehouse.url), "--publish").exception
    assert isinstance(error, KafkaUnavailable)
    assert exit_status(error) == 3


def test_who_runs_it_all_the_time_waits_for_a_warehouse_and_goes_on(
    ledger: BusSettings, warehouse: Warehouse, book: PriceBookVersion, new_embedded: EmbeddedWarehouse
) -> None:
    new_embedded.start()
    with_tables = connect(new_embedded.url, create_database=True)
    migrate(with_tables)
    with_tables.close()
    new_embedded.stop()
    looker = Commitments(ledger, new_embedded.url, SystemClock())
    stop = Event()
    failed, done = value("failed_total"), value("published_minutes_total")

    def look() -> object:
        return looker.look(START, START + HOUR_NS, publish=True)

    loop = Thread(target=keep_published, args=(look, 1, stop, SystemClock()), daemon=True)
    loop.start()
    try:
        until(lambda: value("failed_total") > failed)
        new_embedded.start()
        until(lambda: value("published_minutes_total") >= done + 60)
        until(lambda: value("done_timestamp_seconds") > 0)
    finally:
        stop.set()
        loop.join()


def value(name: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"gpuledger_commitments_{name}") or 0.0
