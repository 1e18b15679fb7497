"""A sink as a process of its own, to be killed; and charge sets on a real topic."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, committed_offsets, framed
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.contract.records import ChargeSet
from tests.support.children import asked_to_end, tied

SESSION_TIMEOUT_S = 6  # the broker's lower limit


class SinkProcess:
    """`gpuledger sink` on one topic; dies with the test."""

    def __init__(self, bus: BusSettings, url: str, topic: str, group: str) -> None:
        code = (
            "import sys; from gpuledger.sink import SinkOptions, run; from gpuledger.bus import BusSettings;"
            "run(SinkOptions(BusSettings.load(), sys.argv[1], topic=sys.argv[2], group=sys.argv[3],"
            " session_timeout_s=float(sys.argv[4])))"
        )
        environment = os.environ | {
            "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": bus.registry_url,
        }
        self.process = subprocess.Popen(
            tied([sys.executable, "-c", code, url, topic, group, str(SESSION_TIMEOUT_S)]),
            env=environment,
        )

    def kill9(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        return asked_to_end(self.process)


@contextlib.contextmanager
def sink_process(bus: BusSettings, url: str, topic: str, group: str) -> Iterator[SinkProcess]:
    """A running sink that is gone afterwards."""
    sink = SinkProcess(bus, url, topic, group)
    try:
        yield sink
    finally:
        if sink.process.poll() is None:
            sink.kill9()


def publish(bus: BusSettings, topic: str, sets: Iterable[ChargeSet]) -> int:
    """Send the sets and await them; returns how many there were."""
    registry = SchemaRegistry(bus)
    with Producer(bus, "test") as producer:
        placed = producer.produce_all(
            Outgoing(topic, f"{s.cluster}/{s.node}".encode(), framed(registry, s)) for s in sets
        )
    registry.close()
    return len(placed)


def committed(bus: BusSettings, topic: str, group: str, partitions: int) -> int:
    """How many records the group has acknowledged, over all partitions."""
    try:
        found = committed_offsets(bus, "test", group, topic, range(partitions))
    except KafkaUnavailable:  # a broker that has just started does not know its groups yet
        return 0
    return sum(offset or 0 for offset in found.values())
