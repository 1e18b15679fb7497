"""An Avro schema document as a small typed tree, with this project's field annotations.

Annotations are custom JSON properties on a field, which other Avro readers ignore:

``gpuledger.coding``: ``delta``
    an ``array<long>`` whose first item is absolute and every other the difference to the one before.
``gpuledger.columns``: GROUP
    all columns of one group in a record have equal lengths.
``gpuledger.index``: FIELD, ``gpuledger.index.null``: true
    every value is an index into the array FIELD of the same record, else of the outermost record; with
    ``null`` also -1, which means none.
``gpuledger.min``, ``gpuledger.max``
    inclusive bounds of an integer field or column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gpuledger.contract.errors import BadSchema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
ANNOTATION_PREFIX: Final = "gpuledger."
# The fewest bytes that a value of the type takes; what lets a count be checked against the bytes left.
_LEAST_BYTES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}


class Missing:
    """The type of ``MISSING``: a field without a default."""


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of Avro's eight primitive types."""

    kind: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A named type of exactly ``size`` bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Enum:
    """A named type of one symbol out of several."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A sequence of items, written in blocks."""

    items: Node


@dataclass(frozen=True, slots=True)
class Map:
    """Values by string keys, written in blocks."""

    values: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, told apart by an index on the wire."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A record inside its own definition."""

    name: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the ``gpuledger.`` properties of a field say."""

    delta: bool = False
    columns: str | None = None
    index: str | None = None
    index_null: bool = False
    minimum: int | None = None
    maximum: int | None = None

    @property
    def checked(self) -> bool:
        """Whether decoded values have to be looked at."""
        return any(v is not None for v in (self.columns, self.index, self.minimum, self.maximum))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; ``default`` is the JSON value of the document or ``MISSING``."""

    name: str
    node: Node
    default: Any
    annotations: Annotations


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields in the order of the wire."""

    name: str
    fields: tuple[Field, ...]


Node: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Reference | Record


def parse(document: Mapping[str, Any]) -> tuple[Record, dict[str, Record | Enum | Fixed]]:
    """The tree of a record schema, and its named types by full name. Raises BadSchema."""
    parser = _Parser()
    node = parser.node(document, "", "")
    if not isinstance(node, Record):
        raise BadSchema("the outermost type of a schema must be a record")
    return node, parser.named


def least_bytes(
    node: Node, named: Mapping[str, Record | Enum | Fixed], inside: frozenset[str] = frozenset()
) -> int:
    """The fewest bytes that a value of ``node`` can take on the wire."""
    match node:
        case Primitive(kind):
            return _LEAST_BYTES[kind]
        case Fixed(_, size):
            return size
        case Union(branches):
            return 1 + min(least_bytes(branch, named, inside) for branch in branches)
        case Reference(name):
            return 0 if name in inside else least_bytes(named[name], named, inside)
        case Record(name, fields):
            return sum(least_bytes(field.node, named, inside | {name}) for field in fields)
        case _:
            return 1


def array_of(node: Node) -> Array | None:
    """The array that a field holds, also where it may be null instead."""
    if isinstance(node, Union):
        others = [branch for branch in node.branches if branch != Primitive("null")]
        return array_of(others[0]) if len(others) == 1 else None
    return node if isinstance(node, Array) else None


def holds_integers(node: Node) -> bool:
    """Whether a field is an integer, a column of integers, or one of these or null."""
    if isinstance(node, Union):
        others = [branch for branch in node.branches if branch != Primitive("null")]
        return len(others) == 1 and holds_integers(others[0])
    if isinstance(node, Array):
        node = node.items
    return isinstance(node, Primitive) and node.kind in ("int", "long")


class _Parser:
    """Walks a document, remembering named types and which of them are still open."""

    def __init__(self) -> None:
        self.named: dict[str, Record | Enum | Fixed] = {}
        self._open: set[str] = set()

    def node(self, document: Any, namespace: str, path: str) -> Node:
        if isinstance(document, str):
            return self._by_name(document, namespace, path)
        if isinstance(document, list):
            return self._union(document, namespace, path)
        if not isinstance(document, Mapping) or "type" not in document:
            raise BadSchema(f"{path or 'schema'}: not a type: {document!r}")
        kind = document["type"]
        match kind:
            case "record":
                return self._record(document, namespace)
            case "enum":
                symbols = document.get("symbols")
                if not isinstance(symbols, list) or not symbols or len(set(symbols)) != len(symbols):
                    raise BadSchema(f"{path}: an enum needs distinct symbols")
                return self._named(Enum(self._full_name(document, namespace), tuple(symbols)))
            case "fixed":
                size = document.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                    raise BadSchema(f"{path}: a fixed needs a size of 0 or more")
                return self._named(Fixed(self._full_name(document, namespace), size))
            case "array":
                return Array(self.node(document.get("items"), namespace, f"{path}[]"))
            case "map":
                return Map(self.node(document.get("values"), namespace, f"{path}{{}}"))
            case _:
                return self.node(kind, namespace, path)

    def _by_name(self, name: str, namespace: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in (name,) if "." in name else (f"{namespace}.{name}" if namespace else name, name):
            if full in self._open:
                return Reference(full)
            if full in self.named:
                return self.named[full]
        raise BadSchema(f"{path}: unknown type {name!r}")

    def _union(self, document: list[Any], namespace: str, path: str) -> Union:
        branches = tuple(self.node(branch, namespace, path) for branch in document)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise BadSchema(f"{path}: a union needs types, and none of them a union")
        return Union(branches)

    def _full_name(self, document: Mapping[str, Any], namespace: str) -> str:
        name = document.get("name")
        if not isinstance(name, str) or not name:
            raise BadSchema(f"a {document['type']} needs a name")
        namespace = document.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self.named or full in self._open or full in PRIMITIVES:
            raise BadSchema(f"the name {full!r} is defined twice")
        return full

    def _named(self, node: Enum | Fixed | Record) -> Enum | Fixed | Record:
        self.named[node.name] = node
        return node

    def _record(self, document: Mapping[str, Any], namespace: str) -> Node:
        full = self._full_name(document, namespace)
        listed = document.get("fields")
        if not isinstance(listed, list):
            raise BadSchema(f"{full}: a record needs a list of fields")
        inner = full.rpartition(".")[0]
        self._open.add(full)
        fields = tuple(self._field(field, inner, full) for field in listed)
        self._open.discard(full)
        if len({field.name for field in fields}) != len(fields):
            raise BadSchema(f"{full}: two fields have one name")
        return self._named(Record(full, fields))

    def _field(self, document: Any, namespace: str, record: str) -> Field:
        if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
            raise BadSchema(f"{record}: a field without a name: {document!r}")
        path = f"{record}.{document['name']}"
        node = self.node(document.get("type"), namespace, path)
        annotations = _annotations(document, path)
        array = array_of(node)
        if annotations.delta and (array is None or array.items != Primitive("long")):
            raise BadSchema(f"{path}: only an array of long can be delta-coded")
        if annotations.columns is not None and not isinstance(node, Array):
            raise BadSchema(f"{path}: only an array can be a column of a group")
        numeric = (annotations.index, annotations.minimum, annotations.maximum)
        if any(value is not None for value in numeric) and not holds_integers(node):
            raise BadSchema(f"{path}: only integers can have bounds or be indices")
        return Field(document["name"], node, document.get("default", MISSING), annotations)


def _annotations(field: Mapping[str, Any], path: str) -> Annotations:
    """Read the annotations of a field; an unknown or ill-typed one is a mistake, not an extension."""
    types: dict[str, tuple[str, type]] = {
        "coding": ("coding", str),
        "columns": ("columns", str),
        "index": ("index", str),
        "index.null": ("index_null", bool),
        "min": ("minimum", int),
        "max": ("maximum", int),
    }
    found: dict[str, Any] = {}
    for key, value in field.items():
        if not key.startswith(ANNOTATION_PREFIX):
            continue
        name, expected = types.get(key.removeprefix(ANNOTATION_PREFIX), ("", object))
        if not name or type(value) is not expected:
            raise BadSchema(f"{path}: unknown annotation {key}: {value!r}")
        found[name] = value
    coding = found.pop("coding", None)
    if coding not in (None, "delta"):
        raise BadSchema(f"{path}: unknown coding {coding!r}")
    if found.get("index_null") and "index" not in found:
        raise BadSchema(f"{path}: gpuledger.index.null without gpuledger.index")
    return Annotations(delta=coding == "delta", **found)
