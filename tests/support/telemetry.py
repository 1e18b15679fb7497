"""Reading gpu.telemetry and gpu.nodes back, and an agent as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, NodeLifetime, SampleBatch, decode
from gpuledger.contract.topics import NODES, TELEMETRY
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from tests.support.children import asked_to_end, tied
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
_CLASSES = {Kind.EVENTS: EventBatch, Kind.SAMPLES: SampleBatch, Kind.HOLDINGS: Holdings}


class Told(NamedTuple):
    """A telemetry record as it lies in Kafka."""

    partition: int
    offset: int
    append_ns: int
    headers: RecordHeaders
    body: EventBatch | SampleBatch | Holdings


def messages(kafka: Kafka, topic: str) -> list[object]:
    """Every message of a topic, partition by partition, in order of offsets."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "tests", "enable.auto.commit": False}
    )
    found: list[object] = []
    try:
        for partition in sorted(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions):
            place = TopicPartition(topic, partition, 0)
            end = _end(consumer, place)
            consumer.assign([place])
            at = 0
            deadline = time.monotonic() + PATIENCE_S
            while at < end:
                message = consumer.poll(1.0)
                assert time.monotonic() < deadline, f"{topic}/{partition} stands at {at} of {end}"
                if message is not None and message.error() is None:
                    found.append(message)
                    at = int(message.offset() or 0) + 1
    finally:
        consumer.close()
    return found


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Offset behind the last record; a broker that has just started may not lead its partitions yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=20)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def telemetry(kafka: Kafka, node: str = "") -> list[Told]:
    """The telemetry records of a node (of all), in the order of its log."""
    found = []
    for message in messages(kafka, TELEMETRY):
        headers = RecordHeaders.from_kafka(message.key(), message.headers() or [])  # type: ignore[attr-defined]
        if node and headers.id.node != node:
            continue
        _, body = unframe(message.value())  # type: ignore[attr-defined]
        record = decode(_CLASSES[headers.kind], body)
        place = message.partition(), message.offset(), message.timestamp()[1] * 1_000_000  # type: ignore[attr-defined]
        found.append(Told(*place, headers, record))
    return found


def lifetimes(kafka: Kafka, node: str = "") -> list[tuple[int, NodeLifetime]]:
    """(partition, statement) of each lifetime of a node (of all)."""
    found = []
    for message in messages(kafka, NODES):
        record = decode(NodeLifetime, unframe(message.value())[1])  # type: ignore[attr-defined]
        if not node or record.node == node:
            found.append((message.partition(), record))  # type: ignore[attr-defined]
    return found


def agent_command(
    kafka: Kafka, registry: Registry, node: str, state: Path, options: Sequence[str]
) -> list[str]:
    """The command line of an agent of that node."""
    return [
        sys.executable,
        "-c",
        "from gpuledger.agent.cli import app; app()",
        "run",
        *("--cluster", "test", "--node", node, "--state", str(state)),
        *("--bootstrap", kafka.bootstrap, "--registry", registry.url),
        *options,
    ]


class RunningAgent:
    """An agent's process and where its log is."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text(errors="replace")

    def wait_log(self, text: str) -> None:
        """Return once its log has that text."""
        until(lambda: text in self.log or self.process.poll() is not None)
        assert text in self.log, self.log

    def stop(self) -> None:
        """SIGTERM, and a clean end."""
        assert asked_to_end(self.process) == 0, self.log

    def kill9(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running_agent(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[RunningAgent]:
    """Start an agent; it is gone afterwards whatever happened."""
    variables = {**(environment or os.environ), "PYTHONPATH": str(ROOT / "services")}
    with (
        log.open("ab") as output,
        subprocess.Popen(tied(command), stderr=output, stdout=output, env=variables) as process,
    ):
        try:
            yield RunningAgent(process, log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
