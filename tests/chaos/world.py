"""The stack as processes that can be killed, frozen and started again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuledger.bus import BusSettings
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, Registry, Server, free_port
from gpuledger.localstack.server import LOOPBACK, START_TIMEOUT_S
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.chaos import budgets, listeners
from tests.chaos.changes import Changes
from tests.chaos.disks import Disk
from tests.chaos.doings import Faults, end_at_once, link_of_agent
from tests.chaos.links import Link
from tests.chaos.prepared import prepare
from tests.chaos.service import Ended, Service, epochs_in
from tests.chaos.settings import (
    APPLICATION,
    CLUSTER,
    HISTORY_STEP,
    SESSION_S,
    SILENCE_S,
    SINK_GROUP,
    WINDOW_S,
)
from tests.chaos.stepped import CLOCK
from tests.chaos.tail import Tail

ROOT = Path(__file__).resolve().parents[2]
WAREHOUSE_DISK_BYTES = 1 << 30  # of memory, as far as it is used
NODES_DISK_BYTES = 64 << 20
KAFKA_DISK_BYTES = 512 << 20


class World(Changes, Faults):
    """Broker, registry, warehouse, workers, sink, budgets and agents under one name each.

    The broker, the warehouse and the agents have small disks of their own where this process may mount them.
    """

    def __init__(
        self, directory: Path, nodes: int, workers: int, session_s: int = SESSION_S, counters: int = 1
    ) -> None:
        super().__init__()
        self.directory = directory
        self.disks = {
            "disk-warehouse": Disk(directory / "warehouse", WAREHOUSE_DISK_BYTES),
            "disk-nodes": Disk(directory / "nodes", NODES_DISK_BYTES),
            "store-kafka": Disk(directory / "kafka" / "log", KAFKA_DISK_BYTES),
        }
        self._session_s = session_s
        self.happened: Counter[str] = Counter()
        self.spooled: set[RecordId] = set()
        listens = [free_port() for _ in range(nodes)]
        self.links = {
            "link-kafka": self._link("link-kafka", lambda: self.kafka.port),
            "link-registry": self._link("link-registry", lambda: self.registry.port),
            "link-warehouse": self._link("link-warehouse", lambda: self.warehouse.port),
        }
        for number, port in enumerate(listens):
            name = link_of_agent(number)
            self.links[name] = self._link(name, lambda p=port: p)  # type: ignore[misc]
        told = [self.links[link_of_agent(number)].port for number in range(nodes)]
        ways = listeners.properties(self.links["link-kafka"].port, list(zip(listens, told, strict=True)))
        self.kafka = Kafka(directory / "kafka", ROOT / "build" / "stack", {**ways, **SOON_LET_IN_AGAIN})
        self.registry = Registry(directory / "registry", ROOT / "build" / "stack")
        self.warehouse = EmbeddedWarehouse(directory / "warehouse" / "data")
        self._round = 0
        self.nodes = [f"node-0.{number}" for number in range(nodes)]
        self.workers = [f"worker-{number}" for number in range(workers)]
        self.counters = [f"budgets-{number}" for number in range(counters)]
        self.twins: dict[str, Service] = {}
        self.targets: dict[str, Server] = {
            "kafka": self.kafka,
            "registry": self.registry,
            "warehouse": self.warehouse,
        }
        self.ended: list[Ended] = []
        self.down: set[str] = set()
        self.bus = BusSettings()
        self.tail = Tail(self.bus)

    def start(self, late_workers: bool = False) -> None:
        """Everything up; agents and sink too, and the workers unless they are late."""
        self.disks = {name: disk for name, disk in self.disks.items() if disk.mount()}
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
        self.tail = Tail(self.bus)
        warehouse_url = self.warehouse.url.replace(str(self.warehouse.port), str(ports["link-warehouse"]))
        env = self._env = {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}",
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_WAREHOUSE_URL": warehouse_url,
            "GPULEDGER_PROCESSOR_WINDOW_S": str(WINDOW_S),
        }
        prepare(self.directory, env)
        for worker in self.workers:
            more = {
                "GPULEDGER_PROCESSOR_APPLICATION": APPLICATION,
                "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
                "GPULEDGER_PROCESSOR_MARK_INTERVAL_S": "1",
                "GPULEDGER_PROCESSOR_HISTORY_STEP": str(HISTORY_STEP),
                "GPULEDGER_PROCESSOR_SESSION_TIMEOUT_S": str(self._session_s),
                "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self.directory / f"faust-{worker}"),
            }
            self.targets[worker] = Service(worker, self.directory, ["processor"], env | more)
        for counter in self.counters:
            more = {
                "GPULEDGER_BUDGETS_APPLICATION": budgets.APPLICATION,
                "GPULEDGER_BUDGETS_STATE_INTERVAL_S": "2",
                "GPULEDGER_BUDGETS_SESSION_TIMEOUT_S": str(self._session_s),
                "GPULEDGER_BUDGETS_SINK_GROUP": SINK_GROUP,
                "GPULEDGER_BUDGETS_DATA_DIRECTORY": str(self.directory / f"faust-{counter}"),
            }
            self.targets[counter] = Service(counter, self.directory, ["budgets", "run"], env | more)
        sink = ["sink", "--session-timeout", str(SESSION_S)]
        self.targets["sink"] = Service("sink", self.directory, sink, env)
        self.add_nodes(self._env)
        for name, server in self.targets.items():
            if late_workers and name in self.workers:
                self.down.add(name)
            elif not server.running:
                server.begin()
        self.wait_until(lambda: all(self.epochs(node) for node in self.nodes), START_TIMEOUT_S)

    @property
    def logs(self) -> list[Path]:
        """Of those that tell of faults: the sink, the agents and their twins."""
        agents = [log for node in self.nodes for log in self.directory.glob(f"*{node}.log")]
        return [self.directory / "sink.log", *agents]

    @property
    def environment(self) -> Mapping[str, str]:
        """See Changes."""
        return self._env

    def begin_anew(self) -> None:
        """New nodes on the same stack, once the others have ended; what they sent stays in the ledger."""
        for node in self.nodes:
            del self.targets[node]
            self.down.discard(node)
        for name in self.workers:
            self.thaw(name)
        self.retire(self.nodes[-1])
        self._round += 1
        self.nodes = [f"node-{self._round}.{number}" for number in range(len(self.nodes))]
        self.ended.clear()
        self.add_nodes(self._env)
        for name in (*self.workers, *self.nodes):
            self.revive(name)
        self.wait_until(lambda: all(self.epochs(node) for node in self.nodes), START_TIMEOUT_S)
        wrong = self.done_changes()
        assert not wrong, wrong

    def _link(self, name: str, server_port: Callable[[], int]) -> Link:
        return Link(server_port, lambda what: self.note(what, name))

    def add_nodes(self, environment: Mapping[str, str]) -> None:
        """The agents of the nodes, each with a clock and a connection of its own; none of them runs yet."""
        for number, node in enumerate(self.nodes):
            env = {
                **environment,
                CLOCK: str(self.clock(node)),
                "GPULEDGER_KAFKA_BOOTSTRAP": f"{LOOPBACK}:{self.links[link_of_agent(number)].port}",
            }
            self.targets[node] = Service(
                node, self.directory, self._agent(node, number), env, "tests.chaos.stepped"
            )

    def clock(self, node: str) -> Path:
        """See Faults."""
        return self.directory / f"clock-{node}"

    def state_of(self, node: str) -> Path:
        """See Faults."""
        return self.directory / "nodes" / f"state-{node}"

    def _agent(self, node: str, number: int) -> list[str]:
        return [
            *("agent", "run", "--cluster", CLUSTER, "--node", node, "--source", "simulated"),
            *("--state", str(self.state_of(node)), "--window-s", str(WINDOW_S)),
            *("--seed", str(number + 1)),
        ]

    def keep(self) -> None:
        """What a supervisor does: start again who ended by itself."""
        for name in self.targets:
            if name not in self.down and self.reap(name):
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

    def wait_servers(self) -> None:
        """Until broker, registry and warehouse serve; who had no room is started again. Raises StackError."""
        for server in (self.kafka, self.registry, self.warehouse):
            self.wait_until(lambda s=server: s.running and s.is_ready(), START_TIMEOUT_S)  # type: ignore[misc]
            server.wait_ready()

    def epochs(self, node: str) -> int:
        """How many lives the node's agent has begun."""
        return epochs_in(self.targets[node].log_path)

    def end_nodes(self, nodes: Sequence[str]) -> None:
        """Start the agents anew so that their stop ends their nodes, and stop them once all is sent that was
        spooled before."""
        self.stop_all(nodes)
        before = {node: self.epochs(node) for node in nodes}
        for node in nodes:
            service = self.targets[node]
            assert isinstance(service, Service)
            service.arguments.append("--ends-node")
            self.revive(node)
        self.wait_until(lambda: all(self.epochs(node) > before[node] for node in nodes), START_TIMEOUT_S)
        keys, began_ns = [NodeKey(CLUSTER, node) for node in nodes], time.time_ns()
        self.wait_until(
            lambda: self.tail.follow() and all(self.tail.has_spoken_of(key, began_ns) for key in keys),
            START_TIMEOUT_S,
        )
        self.stop_all(nodes)

    def still(self) -> None:
        """The workers charge nothing more for now: of a node that vanished they would for ever. The first one
        ends; the others stand still, until `begin_anew`."""
        first, *others = self.workers
        for worker in others:
            self.freeze(worker)
        self.stop(first)

    def stop_all(self, names: Sequence[str]) -> None:
        """SIGTERM to each at once, awaited."""
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            list(pool.map(self.stop, names))

    def close(self) -> None:
        """End everything that still runs; the servers last."""
        for name in reversed(self.targets):
            self.thaw(name)
            if self.targets[name].running and name not in ("kafka", "registry", "warehouse"):
                self.targets[name].kill9()
            self.targets[name].stop()
        for twin in self.twins.values():
            end_at_once(twin)
        self.end_commands()
        for link in self.links.values():
            link.close()
        for disk in self.disks.values():
            disk.unmount()

    def reap(self, name: str) -> bool:
        """See Faults. A server that ended did so for want of room on its disk, or never had what it needs."""
        server = self.targets[name]
        if name in self.down:
            return False
        if not isinstance(server, Service):
            if server.running:
                return False
            disk = self.disks.get(f"store-{name}")
            self.note("halt" if disk is not None and disk.is_full else "end", name)
            server.stop()
            return True
        ended = server.ended()
        if ended is None:
            return False
        self.ended.append(ended)
        server.stop()
        return True
