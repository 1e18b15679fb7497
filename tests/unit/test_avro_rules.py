"""What the annotations of fields demand, of records that are read and of records that are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuledger.contract.avro import Codec, reasons
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import column, record_of

PLAIN_PREFIX = "gpuledger."


def without_annotations(document: Any) -> Any:
    """The same wire without rules: what another writer could send."""
    if isinstance(document, dict):
        return {
            key: without_annotations(value)
            for key, value in document.items()
            if not key.startswith(PLAIN_PREFIX) or key == "gpuledger.coding"
        }
    return [without_annotations(item) for item in document] if isinstance(document, list) else document


def refused(document: dict[str, Any], value: dict[str, Any]) -> BadRecord:
    """How the record is refused on the wire; refused for the same reason when it is to be written."""
    body = Codec(without_annotations(document)).encode(value)
    with pytest.raises(BadRecord) as read:
        Codec(document).decode(body)
    with pytest.raises(BadRecord) as written:
        Codec(document).encode(value)
    assert (written.value.reason, written.value.field) == (read.value.reason, read.value.field)
    assert written.value.position is None
    return read.value


def accepted(document: dict[str, Any], value: dict[str, Any]) -> None:
    codec = Codec(document)
    codec.decode(codec.encode(value))


GROUPS = record_of(
    column("a", columns="x"),
    column("b", "double", columns="x"),
    column("c", columns="y"),
    column("d", columns="y"),
)
INDEX = record_of(
    {"name": "names", "type": {"type": "array", "items": "string"}, "default": []},
    column("strict", index="names") | {"default": []},
    column("loose", index="names", index_null=True) | {"default": []},
    {"name": "one", "type": ["null", "int"], "default": None, "gpuledger.index": "names"},
)
BOUNDS = record_of(
    column("a", min=0, max=100) | {"default": []},
    {"name": "b", "type": "long", "default": 0, "gpuledger.min": -1},
    column("t", coding="delta", min=1000) | {"default": []},
)
ITEM = record_of(
    {"name": "device", "type": "int", "gpuledger.index": "layout.devices", "gpuledger.index.null": True},
    {"name": "slots", "type": "int", "default": 1, "gpuledger.min": 1},
    column("own", index="mine") | {"default": []},
    {"name": "mine", "type": {"type": "array", "items": "long"}, "default": []},
    name="Item",
)
LAYOUT = record_of({"name": "devices", "type": {"type": "array", "items": "string"}}, name="Layout")
NESTED = record_of(
    {"name": "items", "type": {"type": "array", "items": ITEM}, "default": []},
    {"name": "by_name", "type": {"type": "map", "values": "Item"}, "default": {}},
    {"name": "maybe", "type": ["null", "Item"], "default": None},
    {"name": "layout", "type": LAYOUT},
)


@pytest.mark.parametrize("count", [2, 100])
def test_the_columns_of_a_group_have_equal_lengths(count: int) -> None:
    columns = {"a": range(count), "b": np.zeros(count), "c": range(count + 1), "d": range(count + 1)}
    accepted(GROUPS, columns)
    error = refused(GROUPS, {**columns, "b": np.zeros(count - 1)})
    assert (error.reason, error.field) == (reasons.UNEQUAL_COLUMNS, "b")
    assert error.position is not None
    assert error.position > 0
    assert refused(GROUPS, {**columns, "d": []}).field == "d"


@pytest.mark.parametrize("count", [3, 100])
def test_an_index_lies_within_its_dictionary(count: int) -> None:
    names = ["x", "y", "z"]
    inside = [i % 3 for i in range(count)]
    accepted(INDEX, {"names": names, "strict": inside, "loose": [-1, *inside], "one": 2})
    for field, index in (("strict", 3), ("strict", -1), ("loose", 3), ("loose", -2)):
        error = refused(INDEX, {"names": names, field: [*inside, index]})
        assert (error.reason, error.field) == (reasons.BAD_INDEX, field)
        assert str(index) in str(error)
    assert refused(INDEX, {"names": names, "one": 3}).reason == reasons.BAD_INDEX
    assert refused(INDEX, {"strict": [0]}).reason == reasons.BAD_INDEX


@pytest.mark.parametrize("count", [1, 100])
def test_values_lie_within_their_bounds(count: int) -> None:
    accepted(BOUNDS, {"a": [0, 100] * count, "b": -1, "t": [1000, 5000, 1000] * count})
    assert refused(BOUNDS, {"a": [0] * count + [-1]}).reason == reasons.OUT_OF_RANGE
    assert refused(BOUNDS, {"a": [0] * count + [101]}).field == "a"
    assert refused(BOUNDS, {"b": -2}).field == "b"
    assert refused(BOUNDS, {"t": [1000] * count + [999]}).reason == reasons.OUT_OF_RANGE


def test_an_index_in_an_item_points_into_the_outermost_record() -> None:
    layout = {"devices": ["GPU-0", "GPU-1"]}
    accepted(NESTED, {"items": [{"device": 1}, {"device": -1}], "maybe": {"device": 0}, "layout": layout})
    error = refused(NESTED, {"items": [{"device": 0}, {"device": 2}], "layout": layout})
    assert (error.reason, error.field, error.position) == (reasons.BAD_INDEX, "items[1].device", 0)
    assert refused(NESTED, {"maybe": {"device": 9}, "layout": layout}).field == "maybe.device"
    assert refused(NESTED, {"by_name": {"k": {"device": 9}}, "layout": layout}).field == "by_name['k'].device"


def test_rules_hold_in_every_item_and_prefer_the_items_own_arrays() -> None:
    layout = {"devices": ["GPU-0"]}
    accepted(NESTED, {"items": [{"device": 0, "own": [1], "mine": [5, 6]}], "layout": layout})
    error = refused(NESTED, {"items": [{"device": 0, "own": [1], "mine": [5]}], "layout": layout})
    assert (error.reason, error.field) == (reasons.BAD_INDEX, "items[0].own")
    error = refused(NESTED, {"items": [{"device": 0, "slots": 0}], "layout": layout})
    assert (error.reason, error.field) == (reasons.OUT_OF_RANGE, "items[0].slots")


def test_a_column_left_out_is_held_to_its_group_with_its_default() -> None:
    document = record_of(
        column("a", columns="x") | {"default": []}, column("b", columns="x") | {"default": []}
    )
    accepted(document, {})
    with pytest.raises(BadRecord, match="unequal_columns"):
        Codec(document).encode({"b": [1]})
