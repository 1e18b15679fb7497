"""A schema or an annotation that makes no sense is refused when the codec is made."""

from __future__ import annotations

from typing import Any

import pytest

from gpuledger.contract.avro import Codec
from gpuledger.contract.errors import BadSchema
from gpuledger.contract.schemas import schema
from gpuledger.contract.topics import SCHEMA_FILES
from tests.support.avro_values import column, record_of

LONG = {"name": "a", "type": "long"}


@pytest.mark.parametrize(
    "document",
    [
        "long",
        {"type": "array", "items": "long"},
        {"type": "record", "fields": []},
        {"type": "record", "name": "R"},
        record_of(LONG, LONG),
        record_of({"type": "long"}),
        record_of({"name": "a"}),
        record_of({"name": "a", "type": "Unknown"}),
        record_of({"name": "a", "type": []}),
        record_of({"name": "a", "type": ["null", ["null", "long"]]}),
        record_of({"name": "a", "type": {"type": "enum", "name": "E", "symbols": []}}),
        record_of({"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["X", "X"]}}),
        record_of({"name": "a", "type": {"type": "fixed", "name": "F", "size": -1}}),
        record_of({"name": "a", "type": record_of(name="S")}, {"name": "b", "type": record_of(name="S")}),
        record_of({"name": "a", "type": {"type": "array"}}),
        record_of({"name": "a", "type": "long", "default": "1"}),
        record_of({"name": "a", "type": ["null", "long"], "default": 1}),
        record_of({"name": "a", "type": {"type": "array", "items": "long"}, "default": [None]}),
        record_of({"name": "a", "type": record_of(LONG, name="S"), "default": {}}),
        record_of(column("a", coding="zigzag")),
        record_of(column("a", "double", coding="delta")),
        record_of(LONG | {"gpuledger.coding": "delta"}),
        record_of(LONG | {"gpuledger.columns": "x"}),
        record_of(column("a", "double", min=0)),
        record_of({"name": "a", "type": "string", "gpuledger.max": 3}),
        record_of(column("a", index="nowhere")),
        record_of(column("a", index="b"), {"name": "b", "type": "long"}),
        record_of(column("a", index_null=True)),
        record_of(column("a", colums="events")),
        record_of(column("a", min="0")),
        record_of(column("a", min=True)),
        record_of(
            {"name": "next", "type": ["null", "Node"]},
            {"name": "v", "type": "long", "gpuledger.min": 0},
            name="Node",
        ),
    ],
)
def test_a_schema_without_sense_is_refused(document: Any) -> None:
    with pytest.raises(BadSchema):
        Codec(document)


@pytest.mark.parametrize("name", sorted(SCHEMA_FILES))
def test_every_schema_of_the_contract_compiles(name: str) -> None:
    assert Codec(schema(name)).name.rpartition(".")[2] == name
