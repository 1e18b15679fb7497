"""Which branch of a union a Python value belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

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
)

Test: TypeAlias = Callable[[Any], bool]

INTEGER_RANGES: Final = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
FLOAT_MAX: Final = float(np.finfo(np.float32).max)


def is_integer(value: Any) -> bool:
    """An integer of Python or numpy; booleans are none here."""
    return type(value) is int or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def is_boolean(value: Any) -> bool:
    """A boolean of Python or numpy."""
    return isinstance(value, bool | np.bool_)


def is_sequence(value: Any) -> bool:
    """What an array is made of: a list, a tuple, a numpy array, any sequence but text and bytes."""
    return isinstance(value, list | tuple | np.ndarray) or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)
    )


def fits(node: Node, named: Mapping[str, Record | Enum | Fixed]) -> Test:
    """Whether a value belongs to this branch of a union."""
    match node:
        case Primitive("null"):
            return lambda value: value is None
        case Primitive("boolean"):
            return is_boolean
        case Primitive("int" | "long" as kind):
            low, high = INTEGER_RANGES[kind]
            return lambda value: is_integer(value) and low <= value <= high
        case Primitive("float"):
            return lambda value: is_number(value) and not FLOAT_MAX < abs(value) < np.inf
        case Primitive("double"):
            return is_number
        case Primitive("string"):
            return lambda value: isinstance(value, str)
        case Primitive("bytes"):
            return lambda value: isinstance(value, bytes | bytearray | memoryview)
        case Fixed(_, size):
            return lambda value: isinstance(value, bytes | bytearray) and len(value) == size
        case Enum(_, symbols):
            return lambda value: isinstance(value, str) and value in symbols
        case Array():
            return is_sequence
        case Map():
            return lambda value: isinstance(value, Mapping)
        case Reference(name):
            return fits_record(named[name])
        case Record():
            return fits_record(node)
        case _:
            raise AssertionError(node)


def fits_record(node: Node) -> Test:
    """Whether a mapping has every field that the record needs, and no other."""
    assert isinstance(node, Record)
    names = frozenset(field.name for field in node.fields)
    needed = frozenset(field.name for field in node.fields if field.default is MISSING)
    return lambda value: isinstance(value, Mapping) and needed <= value.keys() <= names


def is_number(value: Any) -> bool:
    """An integer or a float, of Python or numpy."""
    return is_integer(value) or isinstance(value, float | np.floating)
