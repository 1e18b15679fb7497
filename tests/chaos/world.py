"""The stack as processes that can be killed, frozen and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer
from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.topics import TELEMETRY
from gpuledger.localstack import Kafka, Registry, Server
from gpuledger.localstack.server import LOOPBACK, START_TIMEOUT_S
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.chaos.links import Link
from tests.chaos.service import Ended, Service
from tests.chaos.stepped import CLOCK, set_step

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "chaos"
APPLICATION = "chaos-processor"
SINK_GROUP = "gpuledger-sink"
WINDOW_S = 2  # many windows in a short run
SILENCE_S = 3  # of a node: some restarts of an agent are longer, some shorter
SESSION_S = 6  # the broker's lower limit: a frozen member is given up soon
PARTITIONS = 2
COMMAND_S = 90
STEP_NS = 5_000_000_000  # two windows and a half: epochs share windows, and overlap
AGAIN_RECORDS = 30  # of a partition: some windows of each node
AGAIN_S = 5.0  # a broker that is away meanwhile is not waited for
EPOCH_BEGINS = '"epoch_begins"'  # what an agent logs once it works


class World:
    """Broker, registry, warehouse, workers, sink and agents under one name each."""

    def __init__(self, directory: Path, nodes: int, workers: int, session_s: int = SESSION_S) -> None:
        self.directory = directory
        self._session_s = session_s
        self.links = {
            "link-kafka": Link(lambda: self.kafka.port),
            "link-registry": Link(lambda: self.registry.port),
            "link-warehouse": Link(lambda: self.warehouse.port),
        }
        through = f"PLAINTEXT://{{host}}:{self.links['link-kafka'].port}"
        advertised = {"advertised.listeners": f"{through},CONTROLLER://{{host}}:{{controller_port}}"}
        self.kafka = Kafka(directory / "kafka", ROOT / "build" / "stack", advertised)
        self.registry = Registry(directory / "registry", ROOT / "build" / "stack")
        self.warehouse = EmbeddedWarehouse(directory / "warehouse")
        self._round = 0
        self.nodes = [f"node-0.{number}" for number in range(nodes)]
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
        for link in self.links.values():
            link.start()
        ports = {name: link.port for name, link in self.links.items()}
        self.bus = BusSettings(
            kafka_bootstrap=f"{LOOPBACK}:{ports['link-kafka']}",
            registry_url=self.registry.url.replace(str(self.registry.port), str(ports["link-registry"])),
        )
        warehouse_url = self.warehouse.url.replace(str(self.warehouse.port), str(ports["link-warehouse"]))
        env = self._env = {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}",
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_WAREHOUSE_URL": warehouse_url,
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
        self._add_nodes()
        for name, server in self.targets.items():
            if late_workers and name in self.workers:
                self.down.add(name)
            elif not server.running:
                server.begin()
        self.wait_until(lambda: all(self.epochs(node) for node in self.nodes), START_TIMEOUT_S)

    def begin_anew(self) -> None:
        """New nodes on the same stack, once the others have ended; what they sent stays in the ledger."""
        for node in self.nodes:
            del self.targets[node]
            self.down.discard(node)
        self._round += 1
        self.nodes = [f"node-{self._round}.{number}" for number in range(len(self.nodes))]
        self.ended.clear()
        self._add_nodes()
        for name in (*self.workers, *self.nodes):
            self.revive(name)
        self.wait_until(lambda: all(self.epochs(node) for node in self.nodes), START_TIMEOUT_S)

    def _add_nodes(self) -> None:
        for number, node in enumerate(self.nodes):
            env = {**self._env, CLOCK: str(self._clock(node))}
            self.targets[node] = Service(
                node, self.directory, self._agent(node, number), env, "tests.chaos.stepped"
            )

    def _clock(self, node: str) -> Path:
        return self.directory / f"clock-{node}"

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

    def lose(self, name: str) -> None:
        """SIGKILL, and what the agent had not sent is lost with its disk; away until `revive`."""
        self.kill(name)
        shutil.rmtree(self.directory / f"state-{name}" / "spool", ignore_errors=True)

    def cut(self, name: str) -> None:
        """See Link, as for the others."""
        self.links[name].cut()

    def hold(self, name: str) -> None:
        self.links[name].hold()

    def mute(self, name: str) -> None:
        self.links[name].mute()

    def join(self, name: str) -> None:
        self.links[name].join()

    def sever(self, name: str) -> None:
        self.links[name].sever()

    def step_ahead(self, name: str) -> None:
        """The wall clock of a node jumps, until `step_back`."""
        set_step(self._clock(name), STEP_NS)

    def step_behind(self, name: str) -> None:
        """See step_ahead."""
        set_step(self._clock(name), -STEP_NS)

    def step_back(self, name: str) -> None:
        """The wall clock is right again."""
        set_step(self._clock(name), 0)

    def repeat(self, name: str) -> None:
        """The last records of each partition come once more, as from a producer that was not answered."""
        with contextlib.suppress(GpuledgerError):  # the broker is away: then they do not
            send_again(self.bus)

    def nothing(self, name: str) -> None:
        """The end of a fault that is over at once."""

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
        for link in self.links.values():
            link.close()

    def _reap(self, name: str) -> bool:
        """Note the end of a process that was not asked to end; True where there is one."""
        server = self.targets[name]
        ended = server.ended() if isinstance(server, Service) else None
        if ended is None or name in self.down:
            return False
        self.ended.append(ended)
        server.stop()
        return True


def send_again(bus: BusSettings) -> None:
    """Send the last records of each partition of gpu.telemetry once more. Raises GpuledgerError."""
    with PartitionReader(bus, "chaos-again") as reader, Producer(bus, "chaos-again") as producer:
        for partition in range(reader.partitions(TELEMETRY)):
            _, end = reader.bounds(TELEMETRY, partition)
            last = list(reader.read_range(TELEMETRY, partition, max(0, end - AGAIN_RECORDS), end))
            producer.produce_all(
                (Outgoing(TELEMETRY, m.key, m.value, m.headers, partition) for m in last), AGAIN_S
            )


def _run(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=COMMAND_S,
    )
