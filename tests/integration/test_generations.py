"""A price that changes the past: `config apply` announces a generation, workers restate it, SQL shows it.

Real Kafka, registry, worker, sink and ClickHouse. The GPU of each node costs a whole number a second, so that
money can be read off: a window of 10 s at 3,600 an hour costs 10.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, apply_topics, framed, register_all
from gpuledger.configuration import Documents
from gpuledger.configuration.announcing import Announcer
from gpuledger.configuration.cli import app
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.periods import following, period_of
from gpuledger.contract.records import NodeLayout, PeriodsVersion
from gpuledger.contract.topics import CHARGES, PERIODS
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.localstack import Kafka, Registry
from gpuledger.pricing.yaml_documents import read_prices
from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.children import tied
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, recent_start
from tests.support.kafka import STACK_DIRECTORY
from tests.support.processors import SILENCE_S, Workers
from tests.support.sink import SinkProcess, until

pytest_plugins = ["tests.support.warehouse"]

PATIENCE_S = 300.0
MINUTES = 5
WINDOWS = MINUTES * MINUTE_NS // WINDOW_NS
NODES = [NodeKey("c", "n1"), NodeKey("c", "n2"), NodeKey("d", "n3")]
A_WINDOW = 10  # what one costs at 3,600 an hour


class SpotNode(Node):
    """A node that the cloud may take back."""

    @property
    def layout(self) -> NodeLayout:
        return replace(Node(self.key).layout, capacity_type="spot")


class Stack(NamedTuple):
    """A ledger of three nodes that lived five minutes, charged at one price."""

    bus: BusSettings
    warehouse: Warehouse
    workers: Workers
    sender: Sender
    nodes: list[Node]
    start: int
    directory: Path
    sinks: list[SinkProcess]

    def another_sink(self) -> None:
        """A new sink; the one before is killed."""
        for sink in self.sinks:
            sink.kill9()
        self.sinks[:] = [SinkProcess(self.bus, str(self.warehouse.url), CHARGES, "generations-sink")]

    def prices(self, always: int, *parts: tuple[int, int, int]) -> Path:
        """A price list: what a second costs, and what instead from this minute to that one."""
        lines = ["kind: prices", "prices:", f"  - {{id: always, per: gpu, price_per_hour: {always * 3600}}}"]
        for price, first, last in parts:
            effective = f"effective_from: {self.instant(first)}, effective_to: {self.instant(last)}"
            lines.append(
                f"  - {{id: p{first}, per: gpu, price_per_hour: {price * 3600}, priority: 1, {effective}}}"
            )
        path = self.directory / "prices.yaml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def instant(self, minute: int) -> str:
        at = datetime.fromtimestamp((self.start + minute * MINUTE_NS) // NS_PER_S, UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def apply(self, path: Path, *options: str) -> dict[str, Any]:
        """`gpuledger config apply`; what it says as JSON."""
        places = {
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_WAREHOUSE_URL": "",
        }
        done = CliRunner(env=places).invoke(app, ["apply", str(path), "--json", "--yes", *options])
        assert done.exception is None, done.exception
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def booked(self) -> dict[tuple[str, str], Decimal]:
        """What is booked, by month and team."""
        rows = self.warehouse.rows(
            "SELECT booking_period, team, sum(b.total) FROM bookings AS b GROUP BY 1, 2"
        )
        return {(period, team): money for period, team, money in rows if money}

    def windows(self) -> dict[tuple[str, int], tuple[int, int, Decimal]]:
        """Of each window in SQL: generation, revision, money; by node and number."""
        rows = self.warehouse.rows(
            "SELECT node, toUnixTimestamp64Milli(window_start), revision, sum(total) FROM charges "
            "GROUP BY node, window_start, revision"
        )
        return {
            (node, (at_ms * 10**6 - self.start) // WINDOW_NS): (revision >> 48, revision, money)
            for node, at_ms, revision, money in rows
        }

    def teams(self) -> set[str]:
        """Who is charged."""
        return {row[0] for row in self.warehouse.rows("SELECT DISTINCT team FROM charges")}

    def replay(self, *options: str) -> dict[str, Any]:
        """`gpuledger replay` of all of it, as a process of its own; what it says as JSON."""
        environment = {
            **os.environ,
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
            "XDG_STATE_HOME": str(self.directory),
        }
        times = ["--from", self.instant(0), "--to", self.instant(MINUTES), "--processes", "1", "--json"]
        done = subprocess.run(
            tied([sys.executable, "-m", "gpuledger", "replay", *times, *options]),
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def restated(self, numbers: range) -> set[int]:
        """The generations of these windows; of each hour all nodes' windows have the same one at any time."""
        found: dict[int, set[int]] = {}
        for (_, number), (generation, _, _) in self.windows().items():
            if number in numbers:
                hour = (self.start + number * WINDOW_NS) // HOUR_NS
                found.setdefault(hour, set()).add(generation)
        assert all(len(generations) == 1 for generations in found.values())
        return set().union(*found.values())

    def money(self) -> list[int]:
        """What each window of the first node costs, in units."""
        found = self.windows()
        return [int(found["n1", number][2]) for number in range(WINDOWS)]


@pytest.fixture(scope="module")
def stack(
    registry: Registry, embedded: EmbeddedWarehouse, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("generations")
    url = embedded.url.rpartition("/")[0] + "/generations"
    warehouse = connect(url, create_database=True)
    migrate(warehouse)
    with Kafka(directory / "kafka", STACK_DIRECTORY) as kafka:
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=2, replication=1)
        with SchemaRegistry(bus) as schemas:
            register_all(schemas)
        start = recent_start(WINDOWS + 12)
        start -= start % MINUTE_NS
        workers = Workers(bus, "generations", directory)
        sender = Sender(bus)
        nodes = [SpotNode(NODES[0]), *(Node(key) for key in NODES[1:])]
        found = Stack(bus, warehouse, workers, sender, nodes, start, directory, [])
        found.apply(found.prices(1))
        for node in nodes:
            sender.lifetime(node.lifetime(start, start + WINDOWS * WINDOW_NS))
            for number in range(WINDOWS):
                sender.telemetry(node.window(start + number * WINDOW_NS))
        workers.start()
        try:
            found.another_sink()
            until(lambda: len(found.windows()) == len(NODES) * WINDOWS, PATIENCE_S)
            yield found
        finally:
            for sink in found.sinks:
                sink.kill9()
            workers.end()
            sender.close()
            warehouse.close()


def test_a_price_of_the_past_restates_its_windows_and_no_others(stack: Stack) -> None:
    before = stack.windows()
    assert {(generation, money) for generation, _, money in before.values()} == {(0, A_WINDOW)}
    path = stack.prices(1, (2, 1, 3))
    said = stack.apply(path)
    (generation,) = said["generations"]
    first, last = (stack.start + minute * MINUTE_NS for minute in (1, 3))
    assert (generation["from_ns"], generation["to_ns"], generation["cause"]) == (first, last, "price")
    inside = range(MINUTE_NS // WINDOW_NS, 3 * MINUTE_NS // WINDOW_NS)
    until(lambda: stack.restated(inside) == {1}, PATIENCE_S)
    after = stack.windows()
    for place, (number, revision, money) in after.items():
        if place[1] in inside:
            assert (number, money) == (1, 2 * A_WINDOW)
        else:
            assert (number, revision, money) == before[place]
    # conservation, against price and lifetime: 5 minutes at 1 a second, two of them at 2
    total = stack.warehouse.rows(
        "SELECT sum(used) + sum(held_idle) + sum(unallocated) + sum(unobserved), sum(total) FROM charges"
    )
    assert total[0] == (len(NODES) * 420, len(NODES) * 420)
    assert all(len(contents) == 1 for contents in ledger(stack.bus).contents.values())

    # once more: nothing is published, nothing announced
    again = stack.apply(path)
    assert again["applied"][0]["unchanged"]
    assert again["generations"] == []
    assert len(Announcer(stack.bus, SystemClock()).announced()) == 1

    # a late record of a restated window is charged with its generation's price
    late = inside[0]
    stack.sender.telemetry([stack.nodes[0].calls(stack.start + late * WINDOW_NS)])
    until(lambda: stack.windows()["n1", late][1] > after["n1", late][1], PATIENCE_S)
    assert stack.windows()["n1", late][::2] == (1, 2 * A_WINDOW)


def test_whoever_is_killed_between_the_version_and_its_generation_loses_nothing(stack: Stack) -> None:
    """The version is in Kafka, and nothing more: the next call announces what it owes, and only that."""
    path = stack.prices(1, (5, 2, 4))
    documents = Documents(stack.bus, SystemClock())
    documents.apply(read_prices(path.read_text(), str(path)), author="killed", restates_past=True)
    count = len(Announcer(stack.bus, SystemClock()).announced())
    said = stack.apply(path)
    assert said["applied"][0]["unchanged"]
    assert said["generations"]
    assert len(Announcer(stack.bus, SystemClock()).announced()) == count + len(said["generations"])
    wanted = [(1, 1, 5, 5, 1)[number * WINDOW_NS // MINUTE_NS] * A_WINDOW for number in range(WINDOWS)]
    until(lambda: stack.money() == wanted, PATIENCE_S)
    assert stack.apply(path)["generations"] == []


def test_a_version_may_leave_the_past_alone(stack: Stack) -> None:
    before = stack.windows()
    said = stack.apply(stack.prices(9), "--no-restate")
    assert said["generations"] == []
    assert stack.apply(stack.prices(9))["generations"] == []
    assert stack.windows() == before


def test_a_spot_price_that_arrives_late_restates_what_was_provisional(stack: Stack) -> None:
    """Known to minute 1 at 2 a second; when the feed has caught up it is 3 from minute 2 on. Minute 1 costs
    the same and is provisional no more; from minute 2 on it is another price."""
    series = (
        "kind: prices\nspot:\n  - {id: s, per: gpu, match: {cluster: c}, known_until: %s,\n"
        "     prices: [{from: %s, price_per_hour: 7200}%s]}\n"
    )
    path = stack.directory / "spot.yaml"
    path.write_text(series % (stack.instant(1), stack.instant(0), ""))
    stack.apply(path)
    until(lambda: stack.money() == [2 * A_WINDOW] * WINDOWS, PATIENCE_S)
    path.write_text(
        series
        % (stack.instant(5), stack.instant(0), f", {{from: {stack.instant(2)}, price_per_hour: 10800}}")
    )
    (generation, *_) = stack.apply(path)["generations"]
    assert generation["cause"] == "late_price"
    assert (generation["from_ns"], generation["clusters"]) == (stack.start + MINUTE_NS, ["c"])
    until(lambda: stack.money() == [2 * A_WINDOW] * 12 + [3 * A_WINDOW] * 18, PATIENCE_S)
    provisional = stack.warehouse.rows(
        "SELECT countIf(endsWith(price_ids, ':provisional')) FROM charges WHERE node = 'n1'"
    )
    assert provisional[0][0] == 0


def test_what_was_booked_in_a_closed_month_stays_whatever_restates_it(stack: Stack) -> None:
    """A late record, a dearer price, another team, and a published replay: all of it is booked in the month
    behind, and the months sum to what the ledger says now."""
    own = period_of(stack.start + WINDOWS * WINDOW_NS)
    stack.apply(stack.prices(1))
    until(lambda: {money for _, _, money in stack.windows().values()} == {A_WINDOW}, PATIENCE_S)
    before = stack.booked()
    assert before == {(own, "vision"): len(NODES) * WINDOWS * A_WINDOW}
    with SchemaRegistry(stack.bus) as registry, Producer(stack.bus, "test") as producer:
        closed = PeriodsVersion(1, time.time_ns(), own, author="finance")
        producer.produce_all([Outgoing(PERIODS, b"periods", framed(registry, closed), partition=0)])
    stack.another_sink()  # it knows from its first record on; others within a minute

    windows = stack.windows()
    stack.sender.telemetry([stack.nodes[1].calls(stack.start)])
    until(lambda: stack.windows()["n2", 0][1] > windows["n2", 0][1], PATIENCE_S)
    assert booked_in(stack, own) == before

    stack.apply(stack.prices(4))
    until(lambda: {money for _, _, money in stack.windows().values()} == {4 * A_WINDOW}, PATIENCE_S)
    assert booked_in(stack, own) == before
    correction = stack.booked()[following(own), "vision"]
    assert correction == 3 * len(NODES) * WINDOWS * A_WINDOW

    teams = stack.directory / "teams.yaml"
    teams.write_text("kind: teams\nrules: [{id: all, team: robots, match: {namespace: research}}]\n")
    stack.apply(teams)
    until(lambda: stack.teams() == {"robots"}, PATIENCE_S)
    whole = len(NODES) * WINDOWS * A_WINDOW
    assert stack.booked() == before | {
        (following(own), "vision"): -whole,
        (following(own), "robots"): 4 * whole,
    }

    published = ["--publish", "--yes", "--policy", "idle=pool"]
    replayed = stack.replay(*published, "--url", str(stack.warehouse.url))
    assert replayed["generations"]
    assert len(stack.teams()) == 2  # the pool's has what robots held idle
    assert booked_in(stack, own) == before
    assert sum(stack.booked().values()) == 4 * whole


def booked_in(stack: Stack, period: str) -> dict[tuple[str, str], Decimal]:
    return {key: money for key, money in stack.booked().items() if key[0] == period}
