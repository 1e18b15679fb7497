"""The values behind the defaults of a schema document.

Avro 1.11, "Complex Types: Records": a default is JSON of the field's type, of a union's first branch, and
bytes are written as a string of the code points 0 to 255.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuledger.contract.avro.schema import (
    MISSING,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Reference,
    Union,
)
from gpuledger.contract.errors import BadSchema

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "bytes": (str,),
}


def default_value(node: Node, document: Any, named: Mapping[str, Record | Enum | Fixed], path: str) -> Any:
    """The Python value that a field without a value takes. Raises BadSchema where the types disagree."""

    def refuse() -> BadSchema:
        return BadSchema(f"{path}: {document!r} is no default of its type")

    match node:
        case Primitive(kind):
            if type(document) not in _JSON_TYPES[kind]:
                raise refuse()
            return document.encode("latin-1") if kind == "bytes" else document
        case Fixed(_, size):
            if not isinstance(document, str) or len(document) != size:
                raise refuse()
            return document.encode("latin-1")
        case Enum(_, symbols):
            if document not in symbols:
                raise refuse()
            return document
        case Array(items):
            if not isinstance(document, list):
                raise refuse()
            return [default_value(items, item, named, path) for item in document]
        case Map(values):
            if not isinstance(document, Mapping):
                raise refuse()
            return {key: default_value(values, value, named, path) for key, value in document.items()}
        case Union(branches):
            return default_value(branches[0], document, named, path)
        case Reference(name):
            return default_value(named[name], document, named, path)
        case Record(_, fields):
            if not isinstance(document, Mapping):
                raise refuse()
            record: dict[str, Any] = {}
            for field in fields:
                given = document.get(field.name, field.default)
                if given is MISSING:
                    raise refuse()
                record[field.name] = default_value(field.node, given, named, f"{path}.{field.name}")
            return record
