"""Many records decoded together are what each is by itself, also among records that are broken."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.avro import Codec
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import ChargeSet, decode, decode_many, encode, encode_many
from gpuledger.contract.schemas import schema
from tests.support.charge_sets import WINDOW_NS, charge_set

HUGE = [0, 1, 63, 64, -1, 1 << 31, -(1 << 31), (1 << 56) - 1, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)]
ROWS = st.integers(0, 7) | st.sampled_from([63, 64, 65, 300])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A charge set as this codec writes it, or fastavro, and sometimes broken."""
    rows = draw(ROWS)
    charges = charge_set(WINDOW_NS * draw(st.integers(0, 3)), rows)
    name = draw(st.sampled_from(["flags", "used_ns", "xid", "lost_events"]))
    values = draw(st.lists(st.sampled_from([v for v in HUGE if v >= 0]), min_size=rows, max_size=rows))
    setattr(charges, name, np.array(values, np.int64))
    body = encode(charges)
    if draw(st.integers(0, 4)) == 0:
        body = by_fastavro(body)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(body) - 1))
        kind = draw(st.sampled_from(["flip", "cut", "more", "drop"]))
        octet = bytes([draw(st.integers(0, 255))])
        body = {
            "flip": body[:at] + octet + body[at + 1 :],
            "cut": body[: max(1, at)],
            "more": body[:at] + octet + body[at:],
            "drop": body[:at] + body[at + 1 :] or octet,
        }[kind]
    return body


def by_fastavro(body: bytes) -> bytes:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(dict(schema("ChargeSet")))
    fastavro.schemaless_writer(out, parsed, fastavro.schemaless_reader(io.BytesIO(body), parsed, parsed))
    return out.getvalue()


def plain(found: Any) -> Any:
    """A record or a refusal in a form that can be compared."""
    if isinstance(found, BadRecord):
        return (found.reason, found.field, found.position, str(found))
    return {
        name: (value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value
        for name, value in ((name, getattr(found, name)) for name in ChargeSet.__slots__)
    }


def alone(body: bytes) -> Any:
    try:
        return decode(ChargeSet, body)
    except BadRecord as error:
        return error


@given(st.lists(bodies(), max_size=9))
@settings(max_examples=150, deadline=None)
def test_many_records_are_what_each_is_alone(batch: list[bytes]) -> None:
    assert [plain(found) for found in decode_many(ChargeSet, batch)] == [plain(alone(b)) for b in batch]


@given(st.lists(st.tuples(ROWS, st.sampled_from([v for v in HUGE if v >= 0])), max_size=40))
@settings(max_examples=30, deadline=None)
def test_many_records_are_encoded_as_each_is_alone(shapes: list[tuple[int, int]]) -> None:
    records = []
    for rows, value in shapes:
        records.append(charge_set(WINDOW_NS, rows))
        records[-1].used_ns = np.full(rows, value, np.int64)
    assert encode_many(records) == [encode(record) for record in records]


def test_one_record_among_many_that_breaks_a_rule_is_an_error() -> None:
    good, bad = charge_set(WINDOW_NS, 3), charge_set(WINDOW_NS, 3)
    bad.used_ns = np.full(3, -1, np.int64)
    with pytest.raises(BadRecord, match="used_ns"):
        encode_many([good, bad, good])


def test_whole_records_are_decoded_together() -> None:
    first, second = decode_many(ChargeSet, [encode(charge_set(n * WINDOW_NS, 3)) for n in range(2)])
    assert not isinstance(first, BadRecord)
    assert not isinstance(second, BadRecord)
    assert np.shares_memory(first.flags.base, second.flags.base)


TABLE = Codec(
    {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "names", "type": {"type": "array", "items": "string"}},
            *(
                {
                    "name": name,
                    "type": {"type": "array", "items": "long"},
                    "gpuledger.columns": "rows",
                    **extra,
                }
                for name, extra in {
                    "name": {"gpuledger.index": "names", "gpuledger.index.null": True},
                    "a": {},
                    "b": {"gpuledger.min": -3, "gpuledger.max": 5},
                    "c": {},
                }.items()
            ),
        ],
    }
)


@pytest.mark.parametrize("value", HUGE)
def test_an_integer_of_any_length_comes_through(value: int) -> None:
    records = [
        {"names": ["x"], "name": [-1, 0], "a": [value, 0], "b": [5, -3], "c": [1, value]} for _ in range(3)
    ]
    found = TABLE.decode_many([TABLE.encode(record) for record in records])
    assert [{k: list(v) for k, v in f.items()} for f in found if not isinstance(f, BadRecord)] == records


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"name": [1]}, "bad_index"), ({"name": [-2]}, "bad_index"), ({"b": [6]}, "out_of_range")],
)
def test_a_record_that_breaks_a_rule_is_refused_and_its_neighbours_are_not(
    change: dict[str, list[int]], reason: str
) -> None:
    good = {"names": ["x"], "name": [0], "a": [1], "b": [1], "c": [1]}
    loose = Codec(
        {**TABLE.schema, "fields": [{"name": f["name"], "type": f["type"]} for f in TABLE.schema["fields"]]}
    )
    bad = loose.encode(good | change)
    first, second, third = TABLE.decode_many([TABLE.encode(good), bad, TABLE.encode(good)])
    assert isinstance(second, BadRecord)
    assert second.reason == reason
    assert not isinstance(first, BadRecord)
    assert not isinstance(third, BadRecord)
