"""A record beyond a limit is refused, and refusing never costs much more memory than the record is long."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpuledger.contract.avro import DEFAULT, Codec, Limits, reasons
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import EVENT_BATCH, column, event_batch, record_of, varint

LONGS = record_of(column("a"))
STRINGS = record_of({"name": "a", "type": {"type": "array", "items": "string"}})
LABELS = record_of({"name": "a", "type": {"type": "map", "values": "long"}})
NULLS = record_of({"name": "a", "type": {"type": "array", "items": "null"}})
EMPTY_RECORDS = record_of({"name": "a", "type": {"type": "array", "items": record_of(name="E")}})
LISTS_OF_NULLS = record_of(
    {"name": "a", "type": {"type": "array", "items": {"type": "array", "items": "null"}}}
)
CHAIN = record_of({"name": "next", "type": ["null", "Node"]}, name="Node")

# Beside 8 bytes a value for the result: what a handful of Python objects and one chunk of vectors take.
OVERHEAD_BYTES = 1 << 20
BYTES_PER_BYTE = 16


def reason_of(document: dict[str, Any], body: bytes, limits: Limits = DEFAULT) -> str:
    with pytest.raises(BadRecord) as caught:
        Codec(document).decode(body, limits)
    return caught.value.reason


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("document", "value", "limit", "needed"),
    [
        (LONGS, {"a": [1, 2, 3]}, "max_array_items", 3),
        (LONGS, {"a": list(range(100))}, "max_array_items", 100),
        (record_of(column("a", "double")), {"a": [1.0, 2.0, 3.0]}, "max_array_items", 3),
        (STRINGS, {"a": ["x", "y", "z"]}, "max_array_items", 3),
        (STRINGS, {"a": ["x", "y", "z"]}, "max_values", 3),
        (STRINGS, {"a": ["xyz"]}, "max_string_bytes", 3),
        (record_of({"name": "a", "type": "bytes"}), {"a": b"xyz"}, "max_bytes_bytes", 3),
        (LABELS, {"a": {"x": 1, "y": 2, "z": 3}}, "max_map_items", 3),
        (LABELS, {"a": {"x": 1, "y": 2, "z": 3}}, "max_values", 3),
        (NULLS, {"a": [None, None, None]}, "max_empty_items", 3),
        (EMPTY_RECORDS, {"a": [{}, {}, {}]}, "max_empty_items", 3),
        (CHAIN, {"next": {"next": {"next": {"next": None}}}}, "max_depth", 3),
    ],
)
def test_a_limit_admits_what_reaches_it_and_refuses_what_passes_it(
    document: dict[str, Any], value: dict[str, Any], limit: str, needed: int
) -> None:
    codec = Codec(document)
    body = codec.encode(value)
    codec.decode(body, replace(DEFAULT, **{limit: needed}))
    assert reason_of(document, body, replace(DEFAULT, **{limit: needed - 1})) == reasons.OVER_LIMIT


def test_a_record_above_the_byte_limit_is_refused_before_it_is_read() -> None:
    body = Codec(LONGS).encode({"a": range(100)})
    Codec(LONGS).decode(body, replace(DEFAULT, max_record_bytes=len(body)))
    for form in (body, memoryview(body)):
        with pytest.raises(BadRecord, match="over_limit"):
            Codec(LONGS).decode(form, replace(DEFAULT, max_record_bytes=len(body) - 1))


def test_a_record_that_no_reader_would_take_is_not_written() -> None:
    codec = Codec(record_of({"name": "a", "type": "bytes"}))
    body = codec.encode({"a": bytes(MAX_RECORD_BYTES - 4)})
    assert len(codec.decode(body)["a"]) == MAX_RECORD_BYTES - 4
    with pytest.raises(BadRecord, match="over_limit"):
        codec.encode({"a": bytes(MAX_RECORD_BYTES)})


def test_the_items_of_all_blocks_count_against_the_limit() -> None:
    body = (varint(2) + b"\x02\x02") * 3 + b"\0"
    assert reason_of(LONGS, body, replace(DEFAULT, max_array_items=5)) == reasons.OVER_LIMIT


def test_items_without_bytes_are_counted_over_the_whole_record() -> None:
    body = varint(50) + (varint(100) + b"\0") * 50 + b"\0"
    assert reason_of(LISTS_OF_NULLS, body) == reasons.OVER_LIMIT
    assert reason_of(NULLS, (varint(100)) * 50 + b"\0") == reasons.OVER_LIMIT


def test_a_record_that_nests_without_end_is_refused() -> None:
    assert reason_of(CHAIN, b"\x02" * 100_000) == reasons.OVER_LIMIT


@pytest.mark.parametrize("document", [LONGS, STRINGS, LABELS, NULLS, EMPTY_RECORDS, LISTS_OF_NULLS])
@pytest.mark.parametrize("count", [1 << 20, 1 << 31, 1 << 62, -(1 << 62)])
def test_a_huge_count_in_a_few_bytes_costs_no_memory(document: dict[str, Any], count: int) -> None:
    codec = Codec(document)
    body = varint(count) + (varint(3) if count < 0 else b"") + b"\0\0\0"

    def refuse() -> None:
        with pytest.raises(BadRecord):
            codec.decode(body)

    refuse()
    assert peak_bytes(refuse) < 50_000


@pytest.mark.parametrize("step", [1, 300])
@pytest.mark.parametrize("spoil", ["end", "trailing", "varint", "rule"])
def test_refusing_a_large_record_takes_a_small_multiple_of_its_size(spoil: str, step: int) -> None:
    fields = column("a"), column("b", coding="delta"), column("c")
    codec = Codec(record_of(column("a", columns="x"), *fields[1:2], column("c", columns="x")))
    values = np.arange(300_000) % 7 * step
    good = codec.encode({"a": values, "b": np.cumsum(values), "c": values})
    body = {
        "end": good[:-2],
        "trailing": good + b"\0",
        "varint": good[:-20] + b"\xff" * 19 + b"\0",
        "rule": Codec(record_of(*fields)).encode({"a": values, "b": values, "c": values[1:]}),
    }[spoil]

    def refuse() -> None:
        with pytest.raises(BadRecord):
            codec.decode(body)

    assert peak_bytes(refuse) < BYTES_PER_BYTE * len(body) + OVERHEAD_BYTES


def test_many_blocks_of_one_item_take_a_small_multiple_of_their_size() -> None:
    body = (varint(1) + b"\x02") * 50_000

    def refuse() -> None:
        with pytest.raises(BadRecord):
            Codec(LONGS).decode(body)

    assert peak_bytes(refuse) < BYTES_PER_BYTE * len(body) + OVERHEAD_BYTES


@pytest.mark.parametrize("events", [1000, 5000, 20_000])
def test_refusing_a_spoiled_event_batch_takes_a_small_multiple_of_its_size(events: int) -> None:
    codec = Codec(EVENT_BATCH)
    body = codec.encode(event_batch(events))
    rng = np.random.default_rng(5)
    for _ in range(30):
        spoiled = bytearray(body)
        for at in rng.integers(0, len(body), 3):
            spoiled[at] = rng.integers(0, 256)

        def decode(spoiled: bytes = bytes(spoiled)) -> None:
            try:
                codec.decode(spoiled)
            except BadRecord:
                return

        assert peak_bytes(decode) < BYTES_PER_BYTE * len(body) + OVERHEAD_BYTES
