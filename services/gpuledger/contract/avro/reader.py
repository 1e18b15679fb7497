"""From bytes to values: a schema compiled to one function for each of its types.

A reader takes the scan and the position and returns the value and the position after it. Every reader
checks a count against the bytes left, and against the limits, before it takes memory for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.column_reader import double_column, long_column
from gpuledger.contract.avro.scan import Scan, read_block
from gpuledger.contract.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Reference,
    Union,
    least_bytes,
)
from gpuledger.contract.avro.varint import decode_one
from gpuledger.contract.errors import BadRecord

Reader: TypeAlias = Callable[[Scan, int], tuple[Any, int]]

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


class ReaderCompiler:
    """Compiles the types of one schema; ``named`` are its named types."""

    def __init__(self, named: Mapping[str, Record | Enum | Fixed]) -> None:
        self._named = named
        self._open: dict[str, Reader] = {}

    def compile(self, node: Node, path: str, delta: bool = False) -> Reader:
        """The reader of ``node``; ``path`` is how errors name it."""
        match node:
            case Primitive(kind):
                return _PRIMITIVES[kind](path)
            case Fixed(_, size):
                return _fixed(size, path)
            case Enum(_, symbols):
                return _enum(symbols, path)
            case Array(Primitive("long")):
                return long_column(path, delta=delta)
            case Array(Primitive("int")):
                return long_column(path, low=_INT_MIN, high=_INT_MAX)
            case Array(Primitive("double")):
                return double_column(path, np.dtype("<f8"))
            case Array(Primitive("float")):
                return double_column(path, np.dtype("<f4"))
            case Array(items):
                return _array(self.compile(items, f"{path}[]"), least_bytes(items, self._named), path)
            case Map(values):
                return _map(self.compile(values, f"{path}{{}}"), least_bytes(values, self._named), path)
            case Union(branches):
                return _union([self.compile(branch, path, delta) for branch in branches], path)
            case Reference(name):
                return _reference(self._open[name], path)
            case Record():
                return _record(self.fields(node, path))

    def fields(self, record: Record, path: str = "") -> list[tuple[str, Reader]]:
        """The readers of a record's fields, in the order of the wire."""
        readers: list[tuple[str, Reader]] = []
        self._open[record.name] = _record(readers)
        for field in record.fields:
            inner = f"{path}.{field.name}" if path else field.name
            readers.append((field.name, self.compile(field.node, inner, field.annotations.delta)))
        return readers


def _truncated(path: str, position: int) -> BadRecord:
    return BadRecord(reasons.TRUNCATED, "the record ends inside a value", path, position)


def _null(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        return None, position

    return read


def _boolean(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        try:
            octet = scan.data[position]
        except IndexError:
            raise _truncated(path, position) from None
        if octet > 1:
            raise BadRecord(reasons.BAD_BOOLEAN, f"a boolean of {octet}", path, position)
        return octet == 1, position + 1

    return read


def _long(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        try:
            octet = scan.data[position]
        except IndexError:
            raise _truncated(path, position) from None
        if octet < 0x80:
            return (octet >> 1) ^ -(octet & 1), position + 1
        return decode_one(scan.data, position, path)

    return read


def _int(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        if position < scan.size and (octet := scan.data[position]) < 0x80:
            return (octet >> 1) ^ -(octet & 1), position + 1
        value, after = decode_one(scan.data, position, path)
        if not _INT_MIN <= value <= _INT_MAX:
            raise BadRecord(reasons.OUT_OF_RANGE, f"{value} is beyond 32 bits", path, position)
        return value, after

    return read


def _real(layout: struct.Struct) -> Callable[[str], Reader]:
    def make(path: str) -> Reader:
        def read(scan: Scan, position: int) -> tuple[Any, int]:
            try:
                return layout.unpack_from(scan.data, position)[0], position + layout.size
            except struct.error:
                raise _truncated(path, position) from None

        return read

    return make


def _span(scan: Scan, position: int, limit: int, path: str) -> tuple[int, int]:
    """Start and end of a value that is preceded by its length in bytes."""
    if position < scan.size and (octet := scan.data[position]) < 0x80:
        size, start = (octet >> 1) ^ -(octet & 1), position + 1
    else:
        size, start = decode_one(scan.data, position, path)
    if size < 0:
        raise BadRecord(reasons.BAD_LENGTH, f"a length of {size}", path, position)
    if size > limit:
        raise BadRecord(reasons.OVER_LIMIT, f"{size} bytes, the limit is {limit}", path, position)
    if size > scan.size - start:
        message = f"{size} bytes are announced, {scan.size - start} are left"
        raise BadRecord(reasons.TRUNCATED, message, path, position)
    return start, start + size


def _string(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        if position < scan.size and not scan.data[position]:
            return "", position + 1
        start, end = _span(scan, position, scan.limits.max_string_bytes, path)
        try:
            return scan.data[start:end].decode(), end
        except UnicodeDecodeError as error:
            message = f"not UTF-8: {error.reason}"
            raise BadRecord(reasons.BAD_UTF8, message, path, start + error.start) from None

    return read


def _bytes(path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        start, end = _span(scan, position, scan.limits.max_bytes_bytes, path)
        return scan.data[start:end], end

    return read


_PRIMITIVES: dict[str, Callable[[str], Reader]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _real(_FLOAT),
    "double": _real(_DOUBLE),
    "string": _string,
    "bytes": _bytes,
}


def _fixed(size: int, path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        end = position + size
        if end > scan.size:
            raise _truncated(path, position)
        return scan.data[position:end], end

    return read


def _enum(symbols: tuple[str, ...], path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        index, after = decode_one(scan.data, position, path)
        if not 0 <= index < len(symbols):
            raise BadRecord(reasons.BAD_SYMBOL, f"symbol {index} of {len(symbols)}", path, position)
        return symbols[index], after

    return read


def _union(branches: list[Reader], path: str) -> Reader:
    singles = dict(zip(range(0, 0x80, 2), branches, strict=False))  # by the only byte of the index

    def read(scan: Scan, position: int) -> tuple[Any, int]:
        if position < scan.size and (branch := singles.get(scan.data[position])) is not None:
            return branch(scan, position + 1)
        index, after = decode_one(scan.data, position, path)
        if not 0 <= index < len(branches):
            raise BadRecord(reasons.BAD_BRANCH, f"branch {index} of {len(branches)}", path, position)
        return branches[index](scan, after)

    return read


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        values = {}
        for name, reader in fields:
            values[name], position = reader(scan, position)
        return values, position

    return read


def _reference(target: Reader, path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        scan.depth += 1
        if scan.depth > scan.limits.max_depth:
            raise BadRecord(
                reasons.OVER_LIMIT, f"nested more than {scan.limits.max_depth} deep", path, position
            )
        value = target(scan, position)
        scan.depth -= 1
        return value

    return read


def _array(items: Reader, least: int, path: str) -> Reader:
    def read(scan: Scan, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        while True:
            count, position, stop = read_block(scan, position, path)
            if not count:
                return values, position
            scan.admit(count, least, len(values), scan.limits.max_array_items, path, position)
            for _ in range(count):
                value, position = items(scan, position)
                values.append(value)
            scan.end_block(position, stop, path)

    return read


def _map(items: Reader, least: int, path: str) -> Reader:
    key_of = _string(f"{path}{{}}")

    def read(scan: Scan, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        taken = 0  # a repeated key replaces the earlier value, and still counts
        while True:
            count, position, stop = read_block(scan, position, path)
            if not count:
                return values, position
            scan.admit(count, least + 1, taken, scan.limits.max_map_items, path, position)
            taken += count
            for _ in range(count):
                key, position = key_of(scan, position)
                values[key], position = items(scan, position)
            scan.end_block(position, stop, path)

    return read
