"""The broker on a full disk: it ends, and what it had acknowledged is there once there is room."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gpuledger.bus import BusSettings, Incoming, Outgoing, PartitionReader, Placed, Producer
from gpuledger.contract.errors import GpuledgerError
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka
from tests.chaos.disks import Disk
from tests.support.kafka import STACK_DIRECTORY
from tests.support.waiting import PATIENCE_S, until

DISK_BYTES = 128 << 20
RECORD_BYTES = 10_000  # that can not be compressed: else they fit into what is left of a page
NUMBER_BYTES = 8  # at the beginning of each
SENT_S = 5.0  # a broker that has no room is not waited for
TOPIC = "room"


def send(bus: BusSettings, numbers: range, timeout_s: float = PATIENCE_S) -> dict[int, Placed]:
    """Records by their number, and where each lies that was acknowledged."""
    found: dict[int, Placed] = {}

    def settled(number: int, outcome: Placed | GpuledgerError) -> None:
        if isinstance(outcome, Placed):
            found[number] = outcome

    producer = Producer(bus, "full-disk")
    try:
        for number in numbers:
            value = number.to_bytes(NUMBER_BYTES) + random.Random(number).randbytes(RECORD_BYTES)
            producer.send(Outgoing(TOPIC, b"k", value, partition=0), partial(settled, number))
        producer.flush(timeout_s)
    except GpuledgerError:
        pass  # what was acknowledged before counts
    finally:
        producer.close()
    return found


def number_of(record: Incoming) -> int:
    """See send."""
    return int.from_bytes((record.value or b"")[:NUMBER_BYTES])


def test_a_broker_that_had_no_room_comes_back_with_all_that_it_acknowledged(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "kafka" / "log", DISK_BYTES)
    is_small = disk.mount()  # else this process may mount none: then nothing is full
    server = Kafka(tmp_path / "kafka", STACK_DIRECTORY, SOON_LET_IN_AGAIN).start()
    try:
        bus = BusSettings(kafka_bootstrap=server.bootstrap)
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
        placed = send(bus, range(23))
        assert len(placed) == 23
        if is_small:
            disk.fill()
            placed |= send(bus, range(23, 123), SENT_S)
            assert len(placed) < 123
            until(lambda: not server.running)
            server.stop()
            server.begin()  # a supervisor starts it again
            until(lambda: not server.running)
            server.stop()
            disk.free()
            server.start()
        placed |= send(bus, range(123, 146))
        assert len(placed) >= 46
        with PartitionReader(bus, "full-disk") as reader:
            read = {
                one.offset: int.from_bytes((one.value or b"")[:8]) for one in reader.read_to_end(TOPIC, 0)
            }
        assert {number: read[place.offset] for number, place in placed.items()} == {n: n for n in placed}
    finally:
        server.stop()
        disk.unmount()
