"""Records that nobody can read, and the whole ones that their mended copies are made from."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.bus import (
    BusSettings,
    Incoming,
    Outgoing,
    PartitionReader,
    Placed,
    Producer,
)
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import DeadLetter, EventBatch, decode, encode
from gpuledger.contract.topics import DEAD_LETTERS, TELEMETRY
from gpuledger.contract.wire import frame, unframe
from tests.chaos.times import NS_PER_MS, is_ahead

BOOT = "poison"  # an epoch that no agent has
LATELY = 60  # records of a partition: the windows of the last half minute
CUT_BYTES = 3
SENT_S = 5.0  # a broker that is away meanwhile is not waited for
CLIENT = "chaos-poison"


def whole(bus: BusSettings, sequence: int, share: float) -> Outgoing | None:
    """Calls of another epoch in a window of late, as they should be; ``share`` of [0, 1) chooses the window.

    None where there are no calls yet. Raises GpuledgerError.
    """
    with PartitionReader(bus, CLIENT) as reader:
        found = []
        for partition in range(reader.partitions(TELEMETRY)):
            _, end = reader.bounds(TELEMETRY, partition)
            found += list(reader.read_range(TELEMETRY, partition, max(0, end - LATELY), end))
    calls = [one for one in found if is_by_an_agent(one) and _is_of_a_window(one)]
    if not calls:
        return None
    chosen = calls[int(share * len(calls))]
    schema_id, body = unframe(chosen.value or b"")
    batch = decode(EventBatch, body)
    header = replace(batch.header, boot_id=BOOT, epoch_ns=1, sequence=sequence, last=False, goodbye=False)
    value = frame(schema_id, encode(replace(batch, header=header)))
    headers = RecordHeaders.of(header, Kind.EVENTS).to_kafka()
    return Outgoing(TELEMETRY, chosen.key, value, tuple(headers))


def send_cut(bus: BusSettings, record: Outgoing) -> None:
    """Send it without its end. Raises GpuledgerError; it may have come all the same."""
    with Producer(bus, CLIENT) as producer:
        producer.produce_all([record._replace(value=(record.value or b"")[:-CUT_BYTES])], SENT_S)


def lying(bus: BusSettings) -> dict[int, Placed]:
    """Where the first of each that can not be read lies, by its sequence. Raises GpuledgerError."""
    found: dict[int, Placed] = {}
    with PartitionReader(bus, CLIENT) as reader:
        for partition in range(reader.partitions(TELEMETRY)):
            for one in reader.read_to_end(TELEMETRY, partition):
                if not is_by_an_agent(one) and headers_of(one).mend == 0:
                    found.setdefault(headers_of(one).id.sequence, one.place)
    return found


def told(bus: BusSettings) -> set[Placed]:
    """The places of which a dead letter speaks. Raises GpuledgerError."""
    with PartitionReader(bus, CLIENT) as reader:
        letters = [
            decode(DeadLetter, unframe(one.value or b"")[1])
            for partition in range(reader.partitions(DEAD_LETTERS))
            for one in reader.read_to_end(DEAD_LETTERS, partition)
        ]
    return {Placed(one.source_topic, one.source_partition, one.source_offset) for one in letters}


def _is_of_a_window(record: Incoming) -> bool:
    headers = headers_of(record)
    arrived_ns = record.timestamp_ms * NS_PER_MS
    return headers.kind is Kind.EVENTS and not is_ahead(headers.window_start_ns, arrived_ns)


def headers_of(record: Incoming) -> RecordHeaders:
    """What its headers say."""
    return RecordHeaders.from_kafka(record.key, record.headers)


def is_by_an_agent(record: Incoming) -> bool:
    """Whether a node sent it, and not this."""
    return headers_of(record).id.boot_id != BOOT
