"""The baseline of ``benchmarks.processor``: a first Faust program, one record an event, a dict of sums."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np

from gpuledger.bus import BusSettings, Outgoing, Producer

RECORDS = 60_000
TOPIC = "plain-events"
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "node", "type": "string"},
        *(
            {"name": name, "type": "long"}
            for name in ("time_ns", "pid", "device", "operation", "duration_ns", "bytes", "launched_threads")
        ),
    ],
}
NODES = 16
GPUS = 8  # of a node
WINDOW_NS = 10_000_000_000
TIMEOUT_S = 300.0


class Rates(NamedTuple):
    """Events a second, and events a second of a core."""

    a_second: float
    a_core_second: float


def create_topic(bus: BusSettings, partitions: int) -> None:
    """The baseline's topic, with as many partitions."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient(bus.client_config())
    client.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()


def run(bus: BusSettings, directory: Path) -> Rates:
    """The plain agent."""
    environment = {**os.environ, "BOOTSTRAP": bus.kafka_bootstrap, "DATA": str(directory)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._plain_agent"],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=True,
        text=True,
    )
    return Rates(*map(float, done.stdout.split()[-2:]))


def send(bus: BusSettings) -> None:
    """One record an event."""
    rng = np.random.default_rng(7)
    parsed = fastavro.parse_schema(SCHEMA)

    def record(number: int) -> Outgoing:
        out = io.BytesIO()
        gpu = int(rng.integers(0, GPUS))
        event = {
            "node": f"n{number % NODES}", "time_ns": 1_700_000_000_000_000_000 + number, "pid": 100 + gpu,
            "device": gpu, "operation": 1, "duration_ns": 4_000, "bytes": 0, "launched_threads": 1 << 16,
        }  # fmt: skip
        fastavro.schemaless_writer(out, parsed, event)
        return Outgoing(TOPIC, f"n{number % NODES}".encode(), out.getvalue())

    with Producer(bus, "benchmark-plain") as producer:
        producer.produce_all(record(number) for number in range(RECORDS))


def plain_agent() -> None:
    """A first Faust program: one record an event, one dict of sums."""
    import faust  # only in the baseline's own process

    app = faust.App(
        f"plain-{os.getpid()}",
        broker=f"kafka://{os.environ['BOOTSTRAP']}",
        consumer_auto_offset_reset="earliest",
        datadir=os.environ["DATA"],
        store="memory://",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    topic = app.topic(TOPIC, key_type=bytes, key_serializer="raw", value_type=bytes, value_serializer="raw")
    parsed = fastavro.parse_schema(SCHEMA)
    sums: dict[tuple[Any, Any, Any], int] = {}

    async def add_up(stream: Any) -> None:
        count, began, spent = 0, 0.0, 0.0
        async for value in stream:
            event: Any = fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
            key = (event["node"], event["pid"], event["time_ns"] // WINDOW_NS)
            sums[key] = sums.get(key, 0) + event["duration_ns"]
            began, spent = began or time.perf_counter(), spent or time.process_time()
            count += 1
            if count == RECORDS:
                rates = count / (time.perf_counter() - began), count / (time.process_time() - spent)
                os.write(1, f"{rates[0]} {rates[1]}\n".encode())
                os._exit(0)

    app.agent(topic)(add_up)
    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    plain_agent()
