"""One schema's codec: values to bytes and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.column_run import decode_run, runs
from gpuledger.contract.avro.column_run_writer import encode_runs
from gpuledger.contract.avro.defaults import default_value
from gpuledger.contract.avro.limits import DEFAULT, MAX_RECORD_BYTES, Limits
from gpuledger.contract.avro.many import ManyReader
from gpuledger.contract.avro.parts import Parts
from gpuledger.contract.avro.reader import ReaderCompiler
from gpuledger.contract.avro.resolve import Resolution, changed_coding
from gpuledger.contract.avro.rules import RecordRules, Seen, check, compile_rules
from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.avro.schema import MISSING, parse
from gpuledger.contract.avro.series import SeriesReader, SeriesRecord
from gpuledger.contract.avro.table_reader import table_of
from gpuledger.contract.avro.writer import WriterCompiler, unknown_fields, write_fields
from gpuledger.contract.errors import BadRecord, BadSchema

ENCODED_TOGETHER: Final = 32  # some 3,000 integers each: more at once no longer fit the second-level cache
CACHED_WRITERS: Final = 32  # writers' schemas alive at one time: the versions of a rolling upgrade


class Codec:
    """Encodes and decodes the Avro bodies of one record schema.

    A record is a dict by field names. ``array<long>`` and ``array<int>`` are int64 columns, ``array<double>``
    float64 (NaN is a value), ``array<float>`` float32; every other array is a list, a map is a dict, an enum
    its symbol. Logical types are not interpreted. Annotations of the schema (see ``schema``) are applied:
    delta-coded columns are absolute in Python, and column groups, indices and bounds are checked both ways.

    Stricter than Avro readers usually are: varints of more than ten bytes or 64 bits, an int beyond 32
    bits, booleans other than 0 and 1, block sizes that do not hold, strings that are not UTF-8 and bytes
    after the record are refused. A codec has no state of its own between calls; threads may share it.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile a parsed .avsc document. Raises BadSchema."""
        self.schema = schema
        root, named = parse(schema)
        self.name = root.name
        self._root = root
        self._readers = ReaderCompiler(named).fields(root)
        self._writers = WriterCompiler(named).entries(root)
        self._default_bytes = {name: octets for name, _, octets in self._writers if octets is not None}
        self._runs = [(run, slice(end - size, end)) for run, size, end in runs(root)]
        self._rules: list[RecordRules] = compile_rules(root, named)
        table = table_of(root, self._rules)
        self._many = ManyReader(table, self._readers, self._rules) if table else None
        self._series = SeriesReader(root, self._runs, self._readers, self._rules)
        self._defaults = {
            field.name: default_value(field.node, field.default, named, field.name)
            for field in root.fields
            if field.default is not MISSING
        }
        self._resolve = lru_cache(CACHED_WRITERS)(self._resolution)

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """The body of a record; fields that ``value`` leaves out take their defaults.

        Raises BadRecord, without a position, where the schema or one of its rules does not allow the value,
        and where the body is longer than any reader takes.
        """
        return self.encode_many([value])[0]

    def encode_many(self, values: Sequence[Mapping[str, Any]]) -> list[bytes]:
        """What ``encode`` returns for each value, in a fraction of the time where columns are short.

        Raises BadRecord where ``encode`` does for one of them, though not always for the first.
        """
        bodies: list[bytes] = []
        for first in range(0, len(values), ENCODED_TOGETHER):
            bodies += self._encode(values[first : first + ENCODED_TOGETHER])
        return bodies

    def _encode(self, values: Sequence[Mapping[str, Any]]) -> list[bytes]:
        for value in values:
            if not isinstance(value, Mapping):
                raise BadRecord(reasons.BAD_TYPE, f"a mapping is needed, not {type(value).__name__}")
        outs = [bytearray() for _ in values]
        seen = [Seen() for _ in values]
        given = [0] * len(values)
        for run, part in self._runs:
            found = encode_runs(outs, run, values, self._default_bytes) if run else [None] * len(values)
            for i, extremes in enumerate(found):
                if extremes is None:
                    given[i] += write_fields(outs[i], self._writers[part], values[i], "")
                else:
                    given[i] += sum(column.name in values[i] for column in run)
                    seen[i].extremes.update(extremes)
        for i, (value, out) in enumerate(zip(values, outs, strict=True)):
            if given[i] != len(value):
                raise unknown_fields(self._writers, value, "")
            if len(out) > MAX_RECORD_BYTES:
                raise BadRecord(reasons.OVER_LIMIT, f"{len(out)} bytes, the limit is {MAX_RECORD_BYTES}")
            check(self._rules, {**self._defaults, **value}, seen[i])
        return [bytes(out) for out in outs]

    def decode(self, body: bytes | bytearray | memoryview, limits: Limits = DEFAULT) -> dict[str, Any]:
        """The record that ``body`` holds, exactly. Raises BadRecord and nothing else, whatever the bytes."""
        values, seen = self._read(body, limits)
        check(self._rules, values, seen)
        return values

    def decode_many(
        self, bodies: Sequence[bytes], limits: Limits = DEFAULT
    ) -> list[dict[str, Any] | BadRecord]:
        """What ``decode`` returns or raises for each body, in a fraction of the time for many small ones.

        Arrays of one record may share their memory with those of others.
        """
        found = self._many.read(bodies, limits) if self._many else [None] * len(bodies)
        return [
            self._alone(body, limits) if values is None else values
            for body, values in zip(bodies, found, strict=True)
        ]

    def decode_series(
        self, bodies: Sequence[bytes], known: Sequence[Parts], limits: Limits = DEFAULT
    ) -> list[SeriesRecord | BadRecord]:
        """What ``decode`` returns or raises for each body, knowing again what its series repeats.

        ``known`` has the parts of each body's series. Records of a series share the values of parts, and
        arrays may share their memory.
        """
        found = dict(self._series.read(bodies, known, limits))
        return [found.get(i) or self._apart(body, limits) for i, body in enumerate(bodies)]

    def _apart(self, body: bytes, limits: Limits) -> SeriesRecord | BadRecord:
        values = self._alone(body, limits)
        return values if isinstance(values, BadRecord) else SeriesRecord(values)

    def _alone(self, body: bytes, limits: Limits) -> dict[str, Any] | BadRecord:
        try:
            return self.decode(body, limits)
        except BadRecord as error:
            return error

    def decode_as(
        self, body: bytes | bytearray | memoryview, writer_schema: Mapping[str, Any], limits: Limits = DEFAULT
    ) -> dict[str, Any]:
        """The record that ``body`` holds under ``writer_schema``, as this schema sees it.

        The body must first be well-formed and keep the rules by its writer's schema, then keep this one's.
        Positions in errors are those of the writer's body, or None. Raises BadRecord and nothing else, also
        where the writer's schema makes no sense.
        """
        writer, resolution = self._resolve(json.dumps(writer_schema))
        values = writer.decode(body, limits)
        if resolution is None:
            return values
        try:
            values, _ = self._read(resolution.rewrite(body), limits)
        except BadRecord as error:
            raise BadRecord(error.reason, f"as the reader sees it: {error}", error.field) from error
        check(self._rules, values, Seen())
        return values

    def _read(self, body: bytes | bytearray | memoryview, limits: Limits) -> tuple[dict[str, Any], Seen]:
        scan = Scan(body, limits)
        values: dict[str, Any] = {}
        seen = Seen()
        position = 0
        for run, part in self._runs:
            decoded = decode_run(scan, position, run) if run else None
            if decoded is not None:
                values.update(decoded.columns)
                seen.positions.update(decoded.positions)
                seen.extremes.update(decoded.extremes)
                position = decoded.end
                continue
            for name, reader in self._readers[part]:
                seen.positions[name] = position
                values[name], position = reader(scan, position)
        if position != scan.size:
            message = f"{scan.size - position} bytes after the end of the record"
            raise BadRecord(reasons.TRAILING_BYTES, message, "", position)
        return values, seen

    def _resolution(self, writer_text: str) -> tuple[Codec, Resolution | None]:
        """The writer's codec, and the way from its schema to this one where they differ."""
        try:
            writer = Codec(json.loads(writer_text))
        except BadSchema as error:
            raise BadRecord(reasons.UNRESOLVED, f"the writer's schema: {error}") from error
        if writer._root == self._root:
            return self, None
        field = changed_coding(writer._root, self._root)
        if field is not None:
            raise BadRecord(reasons.UNRESOLVED, "writer and reader code the column differently", field)
        return writer, Resolution(writer.schema, self.schema)
