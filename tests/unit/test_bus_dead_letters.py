"""What a dead letter says of the record that was refused; no broker."""

from __future__ import annotations

import random

import pytest

from gpuledger.bus import Incoming, letter, partition_for_node
from gpuledger.bus.dead_letters import MAX_DETAIL_CHARACTERS, MAX_HEADERS_BYTES, MAX_WHOLE_BYTES
from gpuledger.bus.murmur2 import murmur2
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import RecordId
from gpuledger.contract.records import DeadLetter, decode, encode

ERROR = BadRecord("truncated", "cut off", "events.time_ns", 17)
HEADERS = RecordHeaders(RecordId("c", "n", "boot", 5, 41), Kind.EVENTS, 20_000, 10_000, 2, True, mend=1)


def _record(**changed: object) -> Incoming:
    record = Incoming("gpu.telemetry", 3, 99, 1_700_000_000_123, b"c/n", b"body", tuple(HEADERS.to_kafka()))
    return record._replace(**changed)  # type: ignore[arg-type]


def test_the_identity_comes_from_key_and_headers() -> None:
    dead = letter(_record(), ERROR, "processor", 7)
    assert (dead.cluster, dead.node, dead.boot_id, dead.epoch_ns, dead.sequence) == ("c", "n", "boot", 5, 41)
    assert (dead.window_start_ns, dead.mend, dead.refused_ns) == (20_000, 1, 7)
    assert (dead.reason, dead.stage, dead.value, dead.key) == ("truncated", "processor", b"body", b"c/n")


def test_without_headers_the_node_is_still_known_and_without_a_key_nothing() -> None:
    dead = letter(_record(headers=()), ERROR, "processor", 7)
    assert (dead.cluster, dead.node, dead.epoch_ns, dead.window_start_ns) == ("c", "n", None, None)
    assert letter(_record(key=None), ERROR, "processor", 7).cluster == ""
    assert letter(_record(key=b"\xff\xfe"), ERROR, "processor", 7).key == b"\xff\xfe"


@pytest.mark.parametrize(("size", "whole"), [(MAX_WHOLE_BYTES, True), (MAX_WHOLE_BYTES + 1, False)])
def test_a_value_is_whole_up_to_the_limit_and_named_by_its_place_beyond(size: int, whole: bool) -> None:
    dead = letter(_record(value=bytes(size)), ERROR, "processor", 7)
    assert (dead.value is not None) == whole
    assert dead.value_bytes == size
    assert (dead.source_topic, dead.source_partition, dead.source_offset) == ("gpu.telemetry", 3, 99)


def test_a_letter_can_always_be_written_whatever_the_record_holds() -> None:
    headers = (("\udcff", b"\xff"), ("big", bytes(MAX_HEADERS_BYTES)), ("after", b""))
    error = BadRecord("x", "\udcff" * (MAX_DETAIL_CHARACTERS + 1))
    dead = letter(_record(headers=headers, key=bytes(MAX_HEADERS_BYTES + 1), timestamp_ms=-1), error, "s", 7)
    assert [item.name for item in dead.headers] == ["\ufffd"]
    assert dead.key is None
    assert dead.append_ns == 0
    assert len(dead.detail) == MAX_DETAIL_CHARACTERS
    assert decode(DeadLetter, encode(dead)) == dead


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # from the tests of Kafka's Java client, UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_of_kafkas_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_nodes_spread_over_the_partitions_and_an_empty_key_has_none() -> None:
    rng = random.Random(1)
    counts = [0] * 24
    for _ in range(2_400):
        counts[partition_for_node(f"c/{rng.randrange(10**9)}".encode(), 24)] += 1
    assert min(counts) > 50
    with pytest.raises(ValueError, match="empty key"):
        partition_for_node(b"", 24)
