"""A ledger on the real stack (Kafka, worker, sink, ClickHouse), to be restated and asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from gpuledger.bus import BusSettings
from gpuledger.configuration.cli import app
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.warehouse import Warehouse
from tests.support.children import tied
from tests.support.fleet import WINDOW_NS, Node, Sender
from tests.support.processors import SILENCE_S, Workers
from tests.support.sink import SinkProcess

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
