"""What the field annotations demand of a decoded record, or of one to be encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Reference,
    Union,
    array_of,
)
from gpuledger.contract.errors import BadRecord, BadSchema

SMALL_COLUMN_ITEMS = 32  # below this Python's min and max are cheaper than numpy's


@dataclass(slots=True)
class Seen:
    """What decoding knows of the outermost fields: where they begin, and the extremes of some columns."""

    positions: dict[str, int] = field(default_factory=dict)
    extremes: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """An integer field or column with the bounds of its values; ``target`` adds its own."""

    name: str
    minimum: int | None
    maximum: int | None
    target: tuple[str, ...] | None = None
    target_is_local: bool = False
    allow_none: bool = False


@dataclass(slots=True)
class RecordRules:
    """The rules of one record type at one place below the outermost record.

    ``steps`` lead there: a field's name, or None for each item of an array or value of a map.
    """

    steps: tuple[str | None, ...]
    groups: list[tuple[str, ...]] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)

    def check(self, root: Mapping[str, Any], seen: Seen) -> None:
        """Raises BadRecord at the first value that breaks a rule."""
        for record, label in self._records(root):
            for group in self.groups:
                self._check_lengths(record, group, label, seen)
            for bounds in self.bounds:
                value = record.get(bounds.name)
                if value is None:
                    continue
                low: int | None
                high: int | None
                if type(value) is int:
                    low = high = value
                else:
                    known = None if self.steps else seen.extremes.get(bounds.name)
                    low, high = extremes(value) if known is None else known
                if low is not None and high is not None:
                    scope = record if bounds.target_is_local else root
                    _check_bounds(low, high, bounds, scope, label, self._position(bounds.name, seen))

    def _records(self, root: Mapping[str, Any]) -> Iterable[tuple[Mapping[str, Any], str]]:
        """The records that the rules are for, each with the prefix that names it."""
        if not self.steps:
            return ((root, ""),)
        return _places(root, self.steps, "")

    def lengths(self, root: Mapping[str, Any]) -> tuple[int, ...]:
        """Lengths of the arrays of the outermost record that values are indices of."""
        return tuple(
            _length(root, bounds.target)
            for bounds in self.bounds
            if bounds.target is not None and not bounds.target_is_local
        )

    def _check_lengths(
        self, record: Mapping[str, Any], group: tuple[str, ...], label: str, seen: Seen
    ) -> None:
        first = group[0]
        length = len(record.get(first, ()))
        for name in group:
            other = len(record.get(name, ()))
            if other != length:
                message = f"{other} values, while {label}{first} has {length}"
                at = self._position(name, seen)
                raise BadRecord(reasons.UNEQUAL_COLUMNS, message, f"{label}{name}", at)

    def _position(self, name: str, seen: Seen) -> int | None:
        """Where the outermost field that holds the value begins."""
        return seen.positions.get(self.steps[0] or "" if self.steps else name)


def check(rules: Iterable[RecordRules], values: Mapping[str, Any], seen: Seen) -> None:
    """Apply the rules of a schema to a record in Python's form. Raises BadRecord."""
    for rule in rules:
        rule.check(values, seen)


def _places(value: Any, steps: tuple[str | None, ...], label: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every record that ``steps`` lead to, with the prefix that names it."""
    if value is None:
        return
    if not steps:
        if isinstance(value, Mapping):
            yield value, f"{label}." if label else ""
        return
    step, rest = steps[0], steps[1:]
    if step is not None:
        if isinstance(value, Mapping):
            yield from _places(value.get(step), rest, f"{label}.{step}" if label else step)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _places(item, rest, f"{label}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _places(item, rest, f"{label}[{index}]")


def _check_bounds(
    low: int, high: int, bounds: Bounds, scope: Mapping[str, Any], label: str, position: int | None
) -> None:
    if bounds.target is not None:
        length = _length(scope, bounds.target)
        if high >= length or low < (-1 if bounds.allow_none else 0):
            worst = high if high >= length else low
            message = f"index {worst}, while {'.'.join(bounds.target)} has {length} items"
            raise BadRecord(reasons.BAD_INDEX, message, f"{label}{bounds.name}", position)
    if bounds.minimum is not None and low < bounds.minimum:
        message = f"{low} is below {bounds.minimum}"
        raise BadRecord(reasons.OUT_OF_RANGE, message, f"{label}{bounds.name}", position)
    if bounds.maximum is not None and high > bounds.maximum:
        message = f"{high} is above {bounds.maximum}"
        raise BadRecord(reasons.OUT_OF_RANGE, message, f"{label}{bounds.name}", position)


def extremes(value: Any) -> tuple[int | None, int | None]:
    """Least and greatest of an integer or a column of integers; None for an empty column."""
    if isinstance(value, int | np.integer):
        return int(value), int(value)
    if not len(value):
        return None, None
    if len(value) <= SMALL_COLUMN_ITEMS:
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return min(items), max(items)
    column = np.asarray(value)
    return int(column.min()), int(column.max())


def _length(scope: Mapping[str, Any], target: tuple[str, ...]) -> int:
    value: Any = scope
    for name in target:
        value = value.get(name) if isinstance(value, Mapping) else None
    return 0 if value is None else len(value)


def compile_rules(root: Record, named: Mapping[str, Record | Enum | Fixed]) -> list[RecordRules]:
    """All rules of a schema, outermost record first. Raises BadSchema."""
    found: list[RecordRules] = []
    _collect(root, (), root, named, found)
    return found


def _collect(
    node: Node,
    steps: tuple[str | None, ...],
    root: Record,
    named: Mapping[str, Record | Enum | Fixed],
    found: list[RecordRules],
) -> None:
    match node:
        case Array(items):
            _collect(items, (*steps, None), root, named, found)
        case Map(values):
            _collect(values, (*steps, None), root, named, found)
        case Union(branches):
            for branch in branches:
                _collect(branch, steps, root, named, found)
        case Reference(name):
            record = named[name]
            assert isinstance(record, Record)
            if any(_annotated(inner.node) or inner.annotations.checked for inner in record.fields):
                raise BadSchema(f"{name}: a record inside its own definition can not carry rules")
        case Record(_, fields):
            rules = _rules_of(node, steps, root)
            if rules.groups or rules.bounds:
                found.append(rules)
            for inner in fields:
                _collect(inner.node, (*steps, inner.name), root, named, found)
        case _:
            pass


def _annotated(node: Node) -> bool:
    match node:
        case Array(inner) | Map(inner):
            return _annotated(inner)
        case Union(branches):
            return any(map(_annotated, branches))
        case Record(_, fields):
            return any(f.annotations.checked or _annotated(f.node) for f in fields)
        case _:
            return False


def _rules_of(record: Record, steps: tuple[str | None, ...], root: Record) -> RecordRules:
    rules = RecordRules(steps)
    groups: dict[str, list[str]] = {}
    for inner in record.fields:
        if inner.annotations.columns is not None:
            groups.setdefault(inner.annotations.columns, []).append(inner.name)
        bounds = _bounds_of(inner, record, root)
        if bounds is not None:
            rules.bounds.append(bounds)
    rules.groups.extend(tuple(names) for names in groups.values() if len(names) > 1)
    return rules


def _bounds_of(inner: Field, record: Record, root: Record) -> Bounds | None:
    said = inner.annotations
    if said.index is None:
        if said.minimum is None and said.maximum is None:
            return None
        return Bounds(inner.name, said.minimum, said.maximum)
    target = tuple(said.index.split("."))
    local = _leads_to_array(record, target)
    if not local and not _leads_to_array(root, target):
        raise BadSchema(f"{record.name}.{inner.name}: there is no array {said.index} to be an index of")
    return Bounds(inner.name, said.minimum, said.maximum, target, local, said.index_null)


def _leads_to_array(record: Record, target: tuple[str, ...]) -> bool:
    node: Node = record
    for name in target:
        if isinstance(node, Union):
            others = [branch for branch in node.branches if branch != Primitive("null")]
            node = others[0] if len(others) == 1 else node
        if not isinstance(node, Record):
            return False
        match = [inner for inner in node.fields if inner.name == name]
        if not match:
            return False
        node = match[0].node
    return array_of(node) is not None
