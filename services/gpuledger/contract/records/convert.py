"""Records to bytes and back: dataclasses on one side, the schema's codec on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from gpuledger.contract.avro import DEFAULT, DOCUMENT, Codec, Limits, Parts
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import budgets, charges, configuration, node, outcomes, progress, telemetry
from gpuledger.contract.schemas import schema

Record: TypeAlias = (
    telemetry.EventBatch
    | telemetry.SampleBatch
    | telemetry.Holdings
    | progress.NodeLifetime
    | progress.NodeProgress
    | progress.Generation
    | charges.ChargeSet
    | configuration.PriceBookVersion
    | configuration.TeamMapVersion
    | configuration.BudgetsVersion
    | configuration.PeriodsVersion
    | budgets.BudgetSubtotal
    | budgets.BudgetState
    | budgets.BreachNote
    | outcomes.Breach
    | outcomes.DeadLetter
)
R = TypeVar("R")
Plain: TypeAlias = Callable[[Any], Any]

_DOCUMENTS = frozenset({"PriceBookVersion", "TeamMapVersion", "BudgetsVersion"})
_MODULES = (budgets, charges, configuration, node, outcomes, progress, telemetry)


def record_name(record: Record) -> str:
    """Short name of the record's schema, such as ``EventBatch``."""
    return type(record).__name__


@cache
def codec(name: str) -> Codec:
    """The compiled codec of the record of that short name."""
    return Codec(schema(name))


def limits_of(name: str) -> Limits:
    """What a record of that short name may cost to decode, unless the caller says otherwise."""
    return DOCUMENT if name in _DOCUMENTS else DEFAULT


def encode(record: Record) -> bytes:
    """Avro body of a record. Raises BadRecord where it breaks its own schema's rules."""
    name = record_name(record)
    mapping: Mapping[str, Any] = _to_plain(schema(name))(record)
    return codec(name).encode(mapping)


def encode_many(records: Sequence[Record]) -> list[bytes]:
    """What ``encode`` returns for each of several records of one class; for many of short columns faster.
    Raises BadRecord where ``encode`` does for one of them."""
    if not records:
        return []
    name = record_name(records[0])
    convert = _to_plain(schema(name))
    return codec(name).encode_many([convert(record) for record in records])


def decode(cls: type[R], body: bytes | memoryview, limits: Limits | None = None) -> R:
    """The record of that class in an Avro body written with the current schema. Raises BadRecord."""
    name = cls.__name__
    return cast(R, _from_plain(name)(codec(name).decode(body, limits or limits_of(name))))


def decode_many(cls: type[R], bodies: Sequence[bytes], limits: Limits | None = None) -> list[R | BadRecord]:
    """What ``decode`` returns or raises for each body; for many small records of columns much faster."""
    name = cls.__name__
    convert = _from_plain(name)
    found = codec(name).decode_many(bodies, limits or limits_of(name))
    return [values if isinstance(values, BadRecord) else cast(R, convert(values)) for values in found]


def decode_series(cls: type[R], bodies: Sequence[bytes], known: Sequence[Parts]) -> list[R | BadRecord]:
    """What ``decode`` returns or raises for each body; ``known`` has what the series of each one repeats.

    Records of one series share these objects: nobody may change them.
    """
    name = cls.__name__
    fields, make = _makers(name)
    found: list[R | BadRecord] = []
    for one in codec(name).decode_series(bodies, known, limits_of(name)):
        if isinstance(one, BadRecord):
            found.append(one)
            continue
        values = one.values
        for field, inner, many in fields:
            part = one.parts.get(field)
            if part is None:
                values[field] = _made(values[field], inner, many)
                continue
            if part.made is None:
                part.made = _made(part.value, inner, many)
            values[field] = part.made
        found.append(make(**values))
    return found


def _made(value: Any, inner: Plain, many: bool) -> Any:
    if value is None:
        return None
    return [inner(item) for item in value] if many else inner(value)


def decode_as(
    cls: type[R], body: bytes | memoryview, writer: Mapping[str, Any], limits: Limits | None = None
) -> R:
    """The record in an Avro body that was written with another version of its schema. Raises BadRecord."""
    name = cls.__name__
    if writer == schema(name):
        return decode(cls, body, limits)
    return cast(R, _from_plain(name)(codec(name).decode_as(body, writer, limits or limits_of(name))))


def _class_of(name: str) -> type[Any]:
    for module in _MODULES:
        found = getattr(module, name, None)
        if isinstance(found, type) and found.__module__ == module.__name__:
            return found
    raise KeyError(f"no class for the record {name}")


def _named(parsed: Any, into: dict[str, Any]) -> dict[str, Any]:
    """All records that a schema defines, by name."""
    if isinstance(parsed, list):
        for branch in parsed:
            _named(branch, into)
    elif isinstance(parsed, dict):
        if parsed["type"] == "record":
            into[parsed["name"]] = parsed
            for field in parsed["fields"]:
                _named(field["type"], into)
        elif parsed["type"] == "array":
            _named(parsed["items"], into)
    return into


def _nested(kind: Any) -> tuple[str | None, bool]:
    """(name of the nested record or None, whether it is an array of them) of a field's type."""
    if isinstance(kind, dict):
        if kind["type"] == "record":
            return kind["name"], False
        if kind["type"] == "array":
            return _nested(kind["items"])[0], True
    if isinstance(kind, str) and kind[:1].isupper():
        return kind, False
    return None, False


def _converters(
    parsed: Mapping[str, Any], make: Callable[[str], Plain]
) -> list[tuple[str, Plain | None, bool]]:
    converters: list[tuple[str, Plain | None, bool]] = []
    for field in parsed["fields"]:
        name, many = _nested(field["type"])
        converters.append((field["name"], make(name) if name else None, many))
    return converters


_TO: dict[str, Plain] = {}


def _to_plain(parsed: Mapping[str, Any]) -> Plain:
    top = parsed["name"]
    if top not in _TO:
        named = _named(parsed, {})

        def make(name: str) -> Plain:
            fields = _converters(named[name], make)

            def convert(record: Any) -> dict[str, Any]:
                plain = {}
                for field, inner, many in fields:
                    value = getattr(record, field)
                    if inner is not None:
                        value = [inner(item) for item in value] if many else inner(value)
                    plain[field] = value
                return plain

            return convert

        _TO[top] = make(top)
    return _TO[top]


@cache
def _from_plain(top: str) -> Plain:
    fields, cls = _makers(top)
    return _converting(fields, cls)


@cache
def _makers(top: str) -> tuple[list[tuple[str, Plain, bool]], type[Any]]:
    """The fields of a record that are records themselves, each with what makes one of them and whether there
    are many; and the record's own class."""
    named = _named(schema(top), {})

    def make(name: str) -> Plain:
        return _converting(fields(name), _class_of(name))

    def fields(name: str) -> list[tuple[str, Plain, bool]]:
        return [
            (field, inner, many) for field, inner, many in _converters(named[name], make) if inner is not None
        ]

    return fields(top), _class_of(top)


def _converting(fields: list[tuple[str, Plain, bool]], cls: type[Any]) -> Plain:
    if not fields:
        return lambda plain: cls(**plain)

    def convert(plain: Mapping[str, Any]) -> Any:
        return cls(**{**plain, **{field: _made(plain[field], inner, many) for field, inner, many in fields}})

    return convert
