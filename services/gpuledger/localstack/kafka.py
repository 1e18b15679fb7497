"""A one-node Kafka on loopback: broker and controller in one process."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from gpuledger.localstack.artifacts import fetch, java
from gpuledger.localstack.errors import StackError
from gpuledger.localstack.server import LOOPBACK, Server, free_port, port_open, short_lived_java

HEAP_MIB = 512  # about 470 MB resident in all
FORMAT_TIMEOUT_S = 240  # 1 s on an idle machine
SOON_LET_IN_AGAIN = {"broker.session.timeout.ms": "3000"}
"""Properties of a broker that will be killed: its next life is refused until the old session is over. The
price is that a machine which lets it wait for longer shuts it out meanwhile."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
# topics are created by `gpuledger topics apply`, never by a typing error
auto.create.topics.enable=false
# one broker holds every replica; few partitions, for a quick start
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# it talks to itself alone: a machine that lets it wait must not shut it out
broker.session.timeout.ms=30000
broker.heartbeat.interval.ms=500
# a group of one test need not wait for members that never come
group.initial.rebalance.delay.ms=0
"""


class Kafka(Server):
    """Kafka with its data in `data_dir`; format at the first start, kept at later ones.

    `bootstrap` is host:port once begun. Topics are never created automatically. `properties` win over ours;
    in their values {host}, {port} and {controller_port} are what was chosen. `scram_users` (name to password)
    are known to SCRAM-SHA-512 from the format on; they are throw-away users of a loopback server.
    """

    name = "kafka"

    def __init__(
        self,
        data_dir: Path,
        build_dir: Path,
        properties: Mapping[str, str] | None = None,
        scram_users: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir)
        self.build_dir = build_dir
        self._properties = dict(properties or {})
        self._scram_users = dict(scram_users or {})
        self.port = 0
        self._controller_port = 0

    @property
    def bootstrap(self) -> str:
        """The address for clients, host:port."""
        return f"{LOOPBACK}:{self.port}"

    def choose_ports(self) -> None:
        """One for the broker, one for its controller."""
        self.port, self._controller_port = free_port(), free_port()

    def command(self) -> list[str]:
        """Write the properties, format an empty directory, and say how to run the broker."""
        libs = fetch(self.build_dir).resolve() / "kafka" / "libs"
        storage = self.data_dir.resolve() / "log"
        properties = self.data_dir / "server.properties"
        text = _PROPERTIES + "".join(f"{name}={value}\n" for name, value in self._properties.items())
        properties.write_text(
            text.format(host=LOOPBACK, port=self.port, controller_port=self._controller_port, data=storage),
            encoding="utf-8",
        )
        if not (storage / "meta.properties").exists():
            self._format(libs, properties)
        return [
            java(),
            f"-Xmx{HEAP_MIB}m",
            *short_lived_java(self.build_dir, self.name),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            "-cp",
            f"{libs}/*",
            "kafka.Kafka",
            str(properties.resolve()),
        ]

    def is_ready(self) -> bool:
        """The broker opens its port only when the controller has let it in."""
        return port_open(self.port)

    def after_start(self) -> None:
        """Nothing: a broker that serves is complete."""

    def _format(self, libs: Path, properties: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        quick = ["-Xmx128m", *short_lived_java(self.build_dir, self.name)]
        tool = [java(), *quick, "-cp", f"{libs}/*", "kafka.tools.StorageTool"]
        options = ["format", "--standalone", f"--cluster-id={cluster}", f"--config={properties.resolve()}"]
        for name, password in self._scram_users.items():
            options += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        result = subprocess.run(
            tool + options,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if result.returncode:
            raise StackError(f"kafka could not format {self.data_dir}:\n{result.stdout}{result.stderr}")
