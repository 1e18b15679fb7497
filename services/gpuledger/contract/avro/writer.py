"""From values to bytes: a schema compiled to one function for each of its types.

A writer appends to a bytearray. A value that the schema does not allow raises BadRecord without a position.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.branches import INTEGER_RANGES, fits, is_boolean, is_integer, is_sequence
from gpuledger.contract.avro.column_writer import double_column, long_column
from gpuledger.contract.avro.defaults import default_value
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
from gpuledger.contract.avro.varint import encode_one
from gpuledger.contract.errors import BadRecord

Writer: TypeAlias = Callable[[bytearray, Any], None]
Entry: TypeAlias = tuple[str, Writer, bytes | None]
"""A field of a record: its name, its writer, and the bytes of its default where it has one."""


class WriterCompiler:
    """Compiles the types of one schema; ``named`` are its named types."""

    def __init__(self, named: Mapping[str, Record | Enum | Fixed]) -> None:
        self._named = named
        self._open: dict[str, Writer] = {}

    def compile(self, node: Node, path: str, delta: bool = False) -> Writer:
        """The writer of ``node``; ``path`` is how errors name it."""
        match node:
            case Primitive("int" | "long" as kind):
                return _integer(*INTEGER_RANGES[kind], path)
            case Primitive("float" | "double" as kind):
                return _real(kind, path)
            case Primitive("null" | "boolean" | "string" | "bytes" as kind):
                return _PLAIN[kind](path)
            case Fixed(_, size):
                return _fixed(size, path)
            case Enum(_, symbols):
                return _enum(symbols, path)
            case Array(Primitive("int" | "long" as kind)):
                return long_column(path, *INTEGER_RANGES[kind], delta=delta)
            case Array(Primitive("float" | "double" as kind)):
                return double_column(path, np.dtype("<f4" if kind == "float" else "<f8"))
            case Array(items):
                return _array(self.compile(items, f"{path}[]"), path)
            case Map(values):
                return _map(self.compile(values, f"{path}{{}}"), path)
            case Union(branches):
                return self._union(branches, path, delta)
            case Reference(name):
                return self._open[name]
            case Record():
                return self._record(node, path)
            case _:
                raise AssertionError(node)

    def _record(self, record: Record, path: str) -> Writer:
        return _record(self.entries(record, path), path)

    def entries(self, record: Record, path: str = "") -> list[Entry]:
        """The fields of a record in the order of the wire."""
        found: list[Entry] = []
        self._open[record.name] = _record(found, path)
        for field in record.fields:
            inner = f"{path}.{field.name}" if path else field.name
            writer = self.compile(field.node, inner, field.annotations.delta)
            default = None
            if field.default is not MISSING:
                octets = bytearray()
                writer(octets, default_value(field.node, field.default, self._named, inner))
                default = bytes(octets)
            found.append((field.name, writer, default))
        return found

    def _union(self, branches: tuple[Node, ...], path: str, delta: bool) -> Writer:
        options = [
            (encode_one(index), fits(branch, self._named), self.compile(branch, path, delta))
            for index, branch in enumerate(branches)
        ]
        # A whole number fits a float too, but an integer branch is exact wherever it stands.
        options.sort(
            key=lambda option: branches[option[0][0] >> 1] in (Primitive("float"), Primitive("double"))
        )

        def write(out: bytearray, value: Any) -> None:
            for index, test, writer in options:
                if test(value):
                    out += index
                    writer(out, value)
                    return
            raise _wrong_type("a value of one of the union's types", value, path)

        return write


def _wrong_type(expected: str, value: Any, path: str) -> BadRecord:
    return BadRecord(
        reasons.BAD_TYPE, f"{expected} is needed, not {type(value).__name__} {value!r:.60}", path
    )


def _null(path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is not None:
            raise _wrong_type("null", value, path)

    return write


def _boolean(path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not is_boolean(value):
            raise _wrong_type("a boolean", value, path)
        out.append(1 if value else 0)

    return write


def _integer(low: int, high: int, path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not is_integer(value):
            raise _wrong_type("an integer", value, path)
        if -64 <= value < 64:
            out.append((int(value) << 1) ^ (int(value) >> 63))
            return
        if not low <= value <= high:
            raise BadRecord(reasons.OUT_OF_RANGE, f"{value} is outside {low} .. {high}", path)
        out += encode_one(int(value))

    return write


def _real(kind: str, path: str) -> Writer:
    layout = struct.Struct("<f" if kind == "float" else "<d")

    def write(out: bytearray, value: Any) -> None:
        if is_boolean(value) or not isinstance(value, int | float | np.integer | np.floating):
            raise _wrong_type("a number", value, path)
        try:
            out += layout.pack(value)
        except (OverflowError, struct.error) as error:
            raise BadRecord(reasons.OUT_OF_RANGE, f"{value!r} does not fit a {kind}", path) from error

    return write


def _string(path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, str):
            raise _wrong_type("a string", value, path)
        try:
            octets = value.encode()
        except UnicodeEncodeError as error:
            raise BadRecord(reasons.BAD_UTF8, f"no UTF-8 for {value!r:.60}", path) from error
        out += encode_one(len(octets))
        out += octets

    return write


def _bytes(path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong_type("bytes", value, path)
        out += encode_one(memoryview(value).nbytes)
        out += value

    return write


_PLAIN: dict[str, Callable[[str], Writer]] = {
    "null": _null,
    "boolean": _boolean,
    "string": _string,
    "bytes": _bytes,
}


def _fixed(size: int, path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes | bytearray) or len(value) != size:
            raise _wrong_type(f"{size} bytes", value, path)
        out += value

    return write


def _enum(symbols: tuple[str, ...], path: str) -> Writer:
    indices = {symbol: encode_one(index) for index, symbol in enumerate(symbols)}

    def write(out: bytearray, value: Any) -> None:
        index = indices.get(value) if isinstance(value, str) else None
        if index is None:
            raise BadRecord(reasons.BAD_SYMBOL, f"{value!r:.60} is none of {', '.join(symbols)}", path)
        out += index

    return write


def _array(item: Writer, path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not is_sequence(value):
            raise _wrong_type("a sequence", value, path)
        if len(value):
            out += encode_one(len(value))
            for element in value:
                item(out, element)
        out.append(0)

    return write


def _map(item: Writer, path: str) -> Writer:
    write_key = _string(f"{path}{{}}")

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _wrong_type("a mapping", value, path)
        if value:
            out += encode_one(len(value))
            for key, element in value.items():
                write_key(out, key)
                item(out, element)
        out.append(0)

    return write


def _record(entries: list[Entry], path: str) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _wrong_type("a mapping", value, path)
        if write_fields(out, entries, value, path) != len(value):
            raise unknown_fields(entries, value, path)

    return write


def write_fields(out: bytearray, entries: Sequence[Entry], value: Mapping[str, Any], path: str) -> int:
    """Write fields of a record, by default where ``value`` lacks them; how many of them it has."""
    given = 0
    for name, writer, default in entries:
        if name in value:
            given += 1
            writer(out, value[name])
        elif default is None:
            field = f"{path}.{name}" if path else name
            raise BadRecord(reasons.MISSING_FIELD, "it has no default", field)
        else:
            out += default
    return given


def unknown_fields(entries: Sequence[Entry], value: Mapping[str, Any], path: str) -> BadRecord:
    """The refusal of a record with fields that are not in the schema."""
    names = {name for name, _, _ in entries}
    unknown = sorted(str(name) for name in value if name not in names)
    return BadRecord(reasons.UNKNOWN_FIELD, f"not in the schema: {', '.join(unknown)}", path)
