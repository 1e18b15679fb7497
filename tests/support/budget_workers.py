"""Workers of the budgets application as processes of their own, and the charges that they count."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Breach, ChargeSet, decode
from gpuledger.contract.topics import BREACHES, CHARGES
from gpuledger.contract.wire import unframe
from tests.support.charge_sets import charge_set
from tests.support.children import tied

SESSION_S = 10  # a machine that lets a worker wait for some seconds is no reason to give its work away
APPLICATION = "budgets-under-test"
WORKER = "from gpuledger.cli import main; main()"
WITHOUT_TAIL = f"from gpuledger.budgets import counting; counting.TAIL_MS = 0; {WORKER}"
"""Of a worker that knows no set but the newest: of every restatement it asks the warehouse."""


class BudgetWorkers:
    """Starts workers of one application, and ends those that a test has left."""

    def __init__(
        self, bus: BusSettings, directory: Path, state_interval_s: float = 1.0, warehouse_url: str = ""
    ) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": bus.registry_url,
            "GPULEDGER_BUDGETS_APPLICATION": APPLICATION,
            "GPULEDGER_BUDGETS_SESSION_TIMEOUT_S": str(SESSION_S),
            "GPULEDGER_BUDGETS_STATE_INTERVAL_S": str(state_interval_s),
            "GPULEDGER_BUDGETS_READ_INTERVAL_S": "1",
            **({"GPULEDGER_WAREHOUSE_URL": warehouse_url} if warehouse_url else {}),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, code: str = WORKER) -> subprocess.Popen[bytes]:
        """One more worker; ``code`` is what it runs."""
        number = len(self._processes)
        environment = {
            **self._environment,
            "GPULEDGER_BUDGETS_DATA_DIRECTORY": str(self._directory / f"faust{number}"),
        }
        with (self._directory / f"budgets{number}.log").open("wb") as log:
            process = subprocess.Popen(
                tied([sys.executable, "-c", code, "budgets", "run"]),
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def logged(self) -> str:
        """All that the workers have logged."""
        return "".join(path.read_text() for path in sorted(self._directory.glob("budgets*.log")))

    def end(self) -> None:
        """kill -9 for all that still run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def await_that(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until a condition holds; fails with the workers' logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            logs = [path.read_text()[-3000:] for path in sorted(self._directory.glob("budgets*.log"))]
            assert time.monotonic() < deadline, f"not in {seconds} s: {what}\n" + "\n----\n".join(logs)
            time.sleep(0.25)


class Ledger:
    """Writes charges to Kafka as the processor does, and reads what is told of breaches."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._producer = Producer(bus, "test-charges")
        self._registry = SchemaRegistry(bus)

    def charge(self, sets: Sequence[ChargeSet]) -> None:
        """Write sets and await them."""
        self._producer.produce_all(
            Outgoing(CHARGES, NodeKey(one.cluster, one.node).key, framed(self._registry, one)) for one in sets
        )

    def breaches(self) -> list[Breach]:
        """All changes, in their order."""
        with PartitionReader(self._bus, "test-breaches") as reader:
            values = [record.value or b"" for record in reader.read_to_end(BREACHES, 0)]
        return [decode(Breach, unframe(value)[1]) for value in values]

    def close(self) -> None:
        """Let go of the connections."""
        self._producer.close()
        self._registry.close()


def spent(node: str, window_start_ns: int, nano: int, inputs: int = 1) -> ChargeSet:
    """A set of one pod of team-a that used so much."""
    charges = charge_set(window_start_ns, 1, node=node, inputs=inputs, nano=0)
    return replace(charges, used_nano=charges.used_nano + nano)
