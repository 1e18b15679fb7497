"""The stack as processes that can be killed, frozen and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuledger.bus import BusSettings
from gpuledger.localstack import Kafka, Registry, Server
from gpuledger.localstack.server import START_TIMEOUT_S
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "chaos"
APPLICATION = "chaos-processor"
SINK_GROUP = "gpuledger-sink"
WINDOW_S = 2  # many windows in a short run
SILENCE_S = 3  # of a node: some restarts of an agent are longer, some shorter
SESSION_S = 6  # the broker's lower limit: a frozen member is given up soon
PARTITIONS = 2
COMMAND_S = 90
EPOCH_BEGINS = '"epoch_begins"'  # what an agent logs once it works


class Ended(NamedTuple):
    """A process of ours that ended without being asked to."""

    name: str
    status: int
    said: str


class Service(Server):
    """One of gpuledger's own commands; it is ready as soon as it runs."""

    def __init__(self, name: str, directory: Path, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        super().__init__(directory / name)
        self.name = name
        self.log_path = directory / f"{name}.log"
        self.arguments = list(arguments)
        self.env = dict(env)

    def choose_ports(self) -> None:
        """None."""

    def command(self) -> list[str]:
        """Through env, which becomes the command: the process id stays the same."""
        settings = [f"{name}={value}" for name, value in self.env.items()]
        return ["/usr/bin/env", *settings, sys.executable, "-m", "gpuledger", *self.arguments]

    def is_ready(self) -> bool:
        """See Server."""
        return True

    def after_start(self) -> None:
        """See Server."""

    def ended(self) -> Ended | None:
        """What it said last, where it ended by itself."""
        if self._process is None or self._process.poll() is None:
            return None
        lines = [line for line in self.log_path.read_text(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Fenced" in line] or lines
        return Ended(self.name, self._process.returncode, telling[-1][-300:] if telling else "")


class World:
    """Broker, registry, warehouse, workers, sink and agents under one name each."""

    def __init__(self, directory: Path, nodes: int, workers: int, session_s: int = SESSION_S) -> None:
        self.directory = directory
        self._session_s = session_s
        self.kafka = Kafka(directory / "kafka", ROOT / "build" / "stack")
        self.registry = Registry(directory / "registry", ROOT / "build" / "stack")
        self.warehouse = EmbeddedWarehouse(directory / "warehouse")
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self.workers = [f"worker-{number}" for number in range(workers)]
        self.targets: dict[str, Server] = {
            "kafka": self.kafka,
            "registry": self.registry,
            "warehouse": self.warehouse,
        }
        self.ended: list[Ended] = []
        self.down: set[str] = set()
        self.bus = BusSettings()

    def start(self, late_workers: bool = False) -> None:
        """Everything up; agents and sink too, and the workers unless they are late."""
        for server in self.targets.values():
            server.begin()
        for server in self.targets.values():
            server.wait_ready()
        self.bus = BusSettings(kafka_bootstrap=self.kafka.bootstrap, registry_url=self.registry.url)
        env = {
            "PYTHONPATH": str(ROOT),
            "GPULEDGER_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "GPULEDGER_REGISTRY_URL": self.registry.url,
            "GPULEDGER_WAREHOUSE_URL": self.warehouse.url,
        }
        documents = [str(ROOT / "deploy" / "demo" / name) for name in ("prices.yaml", "teams.yaml")]
        for arguments in (
            ["topics", "apply", "--partitions", str(PARTITIONS), "--replication", "1"],
            ["schemas", "register"],
            ["config", "apply", "--yes", *documents],
            ["warehouse", "migrate"],
        ):
            _run(arguments, env)
        for worker in self.workers:
            more = {
                "GPULEDGER_PROCESSOR_APPLICATION": APPLICATION,
                "GPULEDGER_PROCESSOR_WINDOW_S": str(WINDOW_S),
                "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
                "GPULEDGER_PROCESSOR_MARK_INTERVAL_S": "1",
                "GPULEDGER_PROCESSOR_SESSION_TIMEOUT_S": str(self._session_s),
                "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self.directory / f"faust-{worker}"),
            }
            self.targets[worker] = Service(worker, self.directory, ["processor"], env | more)
        sink = ["sink", "--session-timeout", str(SESSION_S)]
        self.targets["sink"] = Service("sink", self.directory, sink, env)
        for number, node in enumerate(self.nodes):
            self.targets[node] = Service(node, self.directory, self._agent(node, number), env)
        for name, server in self.targets.items():
            if late_workers and name in self.workers:
                self.down.add(name)
            elif not server.running:
                server.begin()
        self.wait_until(lambda: all(self.epochs(node) for node in self.nodes), START_TIMEOUT_S)

    def _agent(self, node: str, number: int) -> list[str]:
        return [
            *("agent", "run", "--cluster", CLUSTER, "--node", node, "--source", "simulated"),
            *("--state", str(self.directory / f"state-{node}"), "--window-s", str(WINDOW_S)),
            *("--seed", str(number + 1)),
        ]

    # what can be done to a target

    def kill(self, name: str) -> None:
        """SIGKILL; it stays away until `revive`."""
        self._reap(name)
        self.down.add(name)
        if self.targets[name].running:
            self.targets[name].kill9()

    def stop(self, name: str) -> None:
        """SIGTERM, awaited; it stays away until `revive`."""
        self._reap(name)
        self.down.add(name)
        self.targets[name].stop()

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self._reap(name)
        if self.targets[name].running:
            os.kill(self.targets[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        if self.targets[name].running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.targets[name].pid, signal.SIGCONT)

    def revive(self, name: str) -> None:
        """Start again what was killed or stopped."""
        self.down.discard(name)
        if not self.targets[name].running:
            self.targets[name].begin()

    def keep(self) -> None:
        """What a supervisor does: start again who ended by itself."""
        for name in self.targets:
            if name not in self.down and self._reap(name):
                self.targets[name].begin()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Supervise until the condition holds; False where it does not in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.keep()
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.3)

    def epochs(self, node: str) -> int:
        """How many lives the node's agent has begun."""
        log = self.targets[node].log_path
        return log.read_text(errors="replace").count(EPOCH_BEGINS) if log.exists() else 0

    def end_nodes(self, nodes: Sequence[str], after_s: float) -> None:
        """Start the agents anew so that their stop ends their nodes, and stop them after that time."""
        before: dict[str, int] = {}
        for node in nodes:
            service = self.targets[node]
            assert isinstance(service, Service)
            self.stop(node)
            service.arguments.append("--ends-node")
            before[node] = self.epochs(node)
            self.revive(node)
        self.wait_until(lambda: all(self.epochs(node) > before[node] for node in nodes), START_TIMEOUT_S)
        self.wait_until(lambda: False, after_s)
        for node in nodes:
            self.stop(node)

    def close(self) -> None:
        """End everything that still runs; the servers last."""
        for name in reversed(self.targets):
            self.thaw(name)
            if self.targets[name].running and name not in ("kafka", "registry", "warehouse"):
                self.targets[name].kill9()
            self.targets[name].stop()

    def _reap(self, name: str) -> bool:
        """Note the end of a process that was not asked to end; True where there is one."""
        server = self.targets[name]
        ended = server.ended() if isinstance(server, Service) else None
        if ended is None or name in self.down:
            return False
        self.ended.append(ended)
        server.stop()
        return True


def _run(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=COMMAND_S,
    )
