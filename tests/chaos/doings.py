"""What can be done to a target of a chaos run; each fault and each end of one is a method here."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gpuledger.agent.lifetime import LAUNCHED_FILE
from gpuledger.agent.spool.journal import Journal
from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer
from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import RecordId
from gpuledger.contract.topics import TELEMETRY
from gpuledger.localstack import Server
from gpuledger.localstack.server import POLL_S, START_TIMEOUT_S
from tests.chaos.disks import Disk
from tests.chaos.links import Link
from tests.chaos.service import Service, epochs_in
from tests.chaos.settings import WINDOW_S
from tests.chaos.stepped import set_step

STEP_NS = 5_000_000_000  # two windows and a half: epochs share windows, and overlap
LEAP_NS = 3600_000_000_000  # ahead: of no window; behind: of windows before the node was launched
NUMBER = re.compile(r"-[0-9.]+$")  # of a target among others of its kind
TWIN_S = 2.0 * WINDOW_S  # of the work of a second agent
AGAIN_RECORDS = 30  # of a partition: some windows of each node
AGAIN_S = 5.0  # a broker that is away meanwhile is not waited for
MOST_SPOOLED_BYTES = 1 << 30  # more than any agent here may keep
# ClickHouse, src/Common/ErrorCodes.cpp: its code, and what it says
TOO_MANY_PARTS = 252, "Too many parts (3000). Merges are processing significantly slower than inserts"
TABLE_IS_READ_ONLY = 242, "Table is in readonly mode"


class Faults(ABC):
    """The faults of a world, which has what they are done to."""

    directory: Path
    bus: BusSettings
    targets: dict[str, Server]
    links: dict[str, Link]
    disks: dict[str, Disk]
    twins: dict[str, Service]
    down: set[str]
    happened: Counter[str]
    """What came about of the faults of a seed, by fault and family of targets, or link."""
    spooled: set[RecordId]
    """Records that were in a spool when it was lost; some had been sent."""
    _begun_twins = 0

    def note(self, what: str, name: str) -> None:
        """That a fault came about."""
        self.happened[f"{what} {NUMBER.sub('', name)}"] += 1

    @abstractmethod
    def clock(self, node: str) -> Path:
        """The file that steps a node's clock."""

    @abstractmethod
    def state_of(self, node: str) -> Path:
        """The directory of a node's agent."""

    @abstractmethod
    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Supervise until the condition holds; False where it does not in time."""

    @abstractmethod
    def reap(self, name: str) -> bool:
        """Note the end of a process that was not asked to end; True where there is one."""

    def kill(self, name: str) -> None:
        """SIGKILL; it stays away until `revive`."""
        self.reap(name)
        try:
            if self.targets[name].running:
                self.targets[name].kill9()
                self.note("kill", name)
        except ProcessLookupError:  # it was about to be seen to have ended
            while self.targets[name].running:
                time.sleep(POLL_S)
            self.reap(name)
        self.down.add(name)

    def stop(self, name: str) -> None:
        """SIGTERM, awaited; it stays away until `revive`."""
        self.reap(name)
        self.down.add(name)
        if self.targets[name].running:
            self.note("stop", name)
        self.targets[name].stop()

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.reap(name)
        with contextlib.suppress(ProcessLookupError):  # as above
            if self.targets[name].running:
                os.kill(self.targets[name].pid, signal.SIGSTOP)
                self.note("freeze", name)

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

    def strand(self, name: str) -> None:
        """Nothing that a node sends arrives, until `lose`."""
        self.links[link_of(name)].hold()

    def lose(self, name: str) -> None:
        """SIGKILL, and what the agent had not sent is lost with its disk; a new one begins."""
        self.kill(name)
        spool = self.state_of(name) / "spool"
        self.spooled |= records_of(spool)
        shutil.rmtree(spool, ignore_errors=True)
        self.links[link_of(name)].sever()
        self.revive(name)

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
        self.note("step_ahead", name)
        set_step(self.clock(name), STEP_NS)

    def step_behind(self, name: str) -> None:
        """See step_ahead."""
        self.note("step_behind", name)
        set_step(self.clock(name), -STEP_NS)

    def leap_ahead(self, name: str) -> None:
        """See step_ahead; as far as a wrong time zone."""
        self.note("leap_ahead", name)
        set_step(self.clock(name), LEAP_NS)

    def leap_behind(self, name: str) -> None:
        """See leap_ahead."""
        self.note("leap_behind", name)
        set_step(self.clock(name), -LEAP_NS)

    def step_back(self, name: str) -> None:
        """The wall clock is right again."""
        set_step(self.clock(name), 0)

    @abstractmethod
    def beside(self, do: Callable[[], None]) -> None:
        """Have it done beside the faults, so that a connection that is broken holds none of them up."""

    def repeat(self, name: str) -> None:
        """The last records of each partition come once more, as from a producer that was not answered."""
        self.beside(lambda: self._repeat(name))

    def _repeat(self, name: str) -> None:
        with contextlib.suppress(GpuledgerError):  # the broker is away: then they do not
            send_again(self.bus)
            self.note("repeat", name)

    def nothing(self, name: str) -> None:
        """The end of a fault that is over at once."""
        self.down.discard(name)

    def twin(self, name: str) -> None:
        """A second agent with the same node's name, from another disk and in a container that has a /run of
        its own, until `untwin`."""
        agent = self.targets[name]
        launched = self.state_of(name) / LAUNCHED_FILE
        if not isinstance(agent, Service) or not launched.exists() or name in self.twins:
            return
        arguments = [*agent.arguments, "--launched-ns", launched.read_text().strip()]
        arguments[arguments.index("--state") + 1] = str(self.directory / f"twin-of-{name}")
        arguments += ["--locks", str(self.directory / "locks-of-twins")]
        self._begun_twins += 1
        self.twins[name] = agent.like(f"twin-{self._begun_twins}-of-{name}", arguments)
        self.twins[name].begin()
        self.note("twin", name)

    def untwin(self, name: str) -> None:
        """SIGKILL for the second one once it is at work, else it is left to `end_twins`. What it had not sent
        is lost."""
        if name in self.twins and epochs_in(self.twins[name].log_path):
            end_at_once(self.twins.pop(name))

    def end_twins(self) -> None:
        """Those that were not at work when they were to end have their time now."""
        twins = self.twins.values()
        self.wait_until(lambda: all(epochs_in(twin.log_path) for twin in twins), START_TIMEOUT_S)
        if twins:
            self.wait_until(lambda: False, TWIN_S)
        for name in list(self.twins):
            end_at_once(self.twins.pop(name))

    def fill(self, name: str) -> None:
        """No room is left on a disk."""
        self.note("fill", name)
        self.disks[name].fill()

    def free(self, name: str) -> None:
        """There is room again."""
        self.disks[name].free()

    def refuse_parts(self, name: str) -> None:
        """Inserts are answered with TOO_MANY_PARTS until `accept`."""
        self.links[f"link-{name.partition('-')[2]}"].refuse(*TOO_MANY_PARTS)

    def refuse_writes(self, name: str) -> None:
        """Inserts are answered with TABLE_IS_READ_ONLY until `accept`."""
        self.links[f"link-{name.partition('-')[2]}"].refuse(*TABLE_IS_READ_ONLY)

    def accept(self, name: str) -> None:
        """Inserts pass again."""
        self.links[f"link-{name.partition('-')[2]}"].accept()


def end_at_once(service: Service) -> None:
    """SIGKILL, where it runs."""
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        if service.running:
            service.kill9()
    service.stop()


def link_of_agent(number: int) -> str:
    """The name of an agent's own connection to Kafka."""
    return f"link-agent-{number}"


def link_of(node: str) -> str:
    """The same by the node's name, such as node-0.1."""
    return link_of_agent(int(node.rpartition(".")[2]))


def records_of(spool: Path) -> set[RecordId]:
    """The records of telemetry in a spool that nobody uses."""
    if not spool.exists():
        return set()
    journal = Journal(spool, MOST_SPOOLED_BYTES)
    try:
        entries = [entry for _, entry in journal.read(journal.begin, journal.end)]
    finally:
        journal.close()
    return {RecordHeaders.from_kafka(entry.key, entry.headers).id for entry in entries if entry.headers}


def send_again(bus: BusSettings) -> None:
    """Send the last records of each partition of gpu.telemetry once more. Raises GpuledgerError."""
    with PartitionReader(bus, "chaos-again") as reader, Producer(bus, "chaos-again") as producer:
        for partition in range(reader.partitions(TELEMETRY)):
            _, end = reader.bounds(TELEMETRY, partition)
            last = list(reader.read_range(TELEMETRY, partition, max(0, end - AGAIN_RECORDS), end))
            producer.produce_all(
                (Outgoing(TELEMETRY, m.key, m.value, m.headers, partition) for m in last), AGAIN_S
            )
