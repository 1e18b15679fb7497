"""Avro schemas and values at random, and fastavro as the second opinion on them."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping
from typing import Any

import fastavro
import numpy as np
from hypothesis import strategies as st

from gpuledger.contract.schemas import schema

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


def record_of(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


def column(name: str, items: str = "long", **annotations: Any) -> dict[str, Any]:
    """A field that is a numeric array; annotations without prefix, ``index_null`` for ``index.null``."""
    said = {f"gpuledger.{key.replace('_', '.')}": value for key, value in annotations.items()}
    return {"name": name, "type": {"type": "array", "items": items}, **said}


def varint(value: int) -> bytes:
    """One integer as Avro writes it, by the plain definition."""
    rest = (value << 1) ^ (value >> 63)
    out = []
    while rest >> 7:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def fastavro_bytes(document: Mapping[str, Any], value: Any) -> bytes:
    """The body that fastavro writes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(document)), value)
    return out.getvalue()


def fastavro_value(document: Mapping[str, Any], body: bytes) -> Any:
    """The value that fastavro reads."""
    return fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(dict(document)), None)


def absolute(document: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """What fastavro read, with the outermost delta-coded columns made absolute."""
    coded = {f["name"] for f in document["fields"] if f.get("gpuledger.coding") == "delta"}
    return {
        name: [_wrap(total) for total in itertools.accumulate(item)] if name in coded else item
        for name, item in value.items()
    }


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def plain(value: Any) -> Any:
    """A decoded value as fastavro has it: columns as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def same(a: Any, b: Any) -> bool:
    """Equal in value and type, where NaN equals NaN and 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def longs(low: int = LONG_MIN, high: int = LONG_MAX) -> st.SearchStrategy[int]:
    """Integers that prefer the borders between lengths on the wire."""
    borders = [sign * (1 << bits) + step for bits in range(64) for sign in (1, -1) for step in (-1, 0, 1)]
    fitting = sorted({b for b in borders if low <= b <= high} | {low, high})
    return st.one_of(
        st.integers(max(low, -64), min(high, 63)), st.sampled_from(fitting), st.integers(low, high)
    )


_PRIMITIVE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": longs(INT_MIN, INT_MAX),
    "long": longs(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
}
# One branch of each kind: which of two records a dict belongs to is nobody's to say.
_KINDS = (
    ("int", "long"),
    ("float", "double"),
    ("string", "enum"),
    ("bytes", "fixed"),
    ("array",),
    ("map", "record"),
)


@st.composite
def record_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A record schema of any types, three levels deep at most."""
    names = (f"T{number}" for number in itertools.count())
    return _record_schema(draw, names, 3)


def _record_schema(draw: st.DrawFn, names: Any, depth: int) -> dict[str, Any]:
    name = next(names)
    count = draw(st.integers(0 if depth < 3 else 1, 4))
    fields = [{"name": f"f{i}", "type": _type(draw, names, depth - 1)} for i in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def _type(draw: st.DrawFn, names: Any, depth: int, kinds: tuple[str, ...] | None = None) -> Any:
    simple = (*_PRIMITIVE_VALUES, "enum", "fixed", "column")
    kind = draw(
        st.sampled_from(kinds or (simple if depth <= 0 else (*simple, "array", "map", "record", "union")))
    )
    match kind:
        case "enum":
            return {"type": "enum", "name": next(names), "symbols": ["A", "B", "C"]}
        case "fixed":
            return {"type": "fixed", "name": next(names), "size": draw(st.integers(0, 4))}
        case "column":
            return {"type": "array", "items": draw(st.sampled_from(["int", "long", "float", "double"]))}
        case "array":
            return {"type": "array", "items": _type(draw, names, depth - 1)}
        case "map":
            return {"type": "map", "values": _type(draw, names, depth - 1)}
        case "record":
            return _record_schema(draw, names, depth - 1)
        case "union":
            picked = draw(st.lists(st.sampled_from(_KINDS), unique=True, max_size=3))
            branches = [_type(draw, names, depth - 1, kinds) for kinds in picked]
            branches.insert(draw(st.integers(0, len(branches))), "null")
            return branches
        case _:
            return kind


def values(document: Any) -> st.SearchStrategy[Any]:
    """Values of a schema in fastavro's form: columns as lists."""
    if isinstance(document, list):
        return st.one_of([values(branch) for branch in document])
    if isinstance(document, str):
        return _PRIMITIVE_VALUES[document]
    match document["type"]:
        case "enum":
            return st.sampled_from(document["symbols"])
        case "fixed":
            return st.binary(min_size=document["size"], max_size=document["size"])
        case "array":
            numeric = document["items"] in ("int", "long", "float", "double")
            return st.lists(values(document["items"]), max_size=40 if numeric else 4)
        case "map":
            return st.dictionaries(st.text(max_size=6), values(document["values"]), max_size=4)
        case _:
            return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in document["fields"]})


def event_batch(events: int, seed: int = 0) -> dict[str, Any]:
    """A plausible EventBatch of the contract's own schema, with columns of one, two, three and more bytes."""
    rng = np.random.default_rng(seed)
    start_ns = 1_760_000_000_000_000_000
    return {
        "header": {
            "cluster": "north",
            "node": "node-7",
            "boot_id": "8c7d5b0e-5f3e-4b8e-9d57-6f0f4a0b9a11",
            "epoch_ns": 86_400_000_000_000,
            "sequence": 41,
            "window_start_ns": start_ns,
            "window_length_ns": 10_000_000_000,
        },
        "processes": [
            {"pid": 4000 + i, "consumer_kind": "pod", "consumer": f"pod-{i}", "name": "python"}
            for i in range(12)
        ],
        "devices": [f"GPU-00000000-0000-0000-0000-00000000000{i}" for i in range(8)],
        "threads": np.arange(40) + 4000,
        "functions": rng.integers(1 << 46, 1 << 47, 50),
        "time_ns": start_ns + np.cumsum(rng.integers(100, 20_000, events)),
        "process": rng.integers(0, 12, events),
        "thread": rng.integers(-1, 40, events),
        "device": rng.integers(-1, 8, events),
        "operation": rng.integers(0, 30, events),
        "duration_ns": rng.integers(500, 100_000, events),
        "bytes": np.where(rng.random(events) < 0.1, rng.integers(0, 1 << 27, events), 0),
        "launched_threads": rng.integers(1 << 13, 1 << 20, events),
        "function": rng.integers(-1, 50, events),
        "result": np.zeros(events, np.int64),
        "count": np.ones(events, np.int64),
        "span_ns": np.zeros(events, np.int64),
    }


EVENT_BATCH = schema("EventBatch")
