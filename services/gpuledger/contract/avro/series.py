"""Many records of one schema: what comes again is known again, runs of columns are decoded together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpuledger.contract.avro.column_run import RUN_BYTES, RunColumn, decode_runs, find_run
from gpuledger.contract.avro.limits import Limits
from gpuledger.contract.avro.parts import Part, Parts, comes_again
from gpuledger.contract.avro.reader import Reader
from gpuledger.contract.avro.rules import RecordRules, Seen
from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.avro.schema import Record
from gpuledger.contract.errors import BadRecord

TOGETHER_BYTES: Final = RUN_BYTES  # beyond it the second-level cache no longer holds what is decoded at once


@dataclass(slots=True)
class SeriesRecord:
    """A record: its values, and the parts among them by the name of their field."""

    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    number: int
    scan: Scan
    known: Parts
    record: SeriesRecord = field(default_factory=SeriesRecord)
    seen: Seen = field(default_factory=Seen)
    position: int = 0


class SeriesReader:
    """Reads records with the parts that their series repeat. Without a state of its own."""

    def __init__(
        self,
        root: Record,
        runs: Sequence[tuple[tuple[RunColumn, ...], slice]],
        readers: Sequence[tuple[str, Reader]],
        rules: Sequence[RecordRules],
    ) -> None:
        """``readers`` are those of all fields, in the order of the wire; ``runs`` cuts them."""
        again = {one.name for one in root.fields if comes_again(one.node)}
        self._runs = [
            (run, [(name, reader, name in again) for name, reader in readers[part]]) for run, part in runs
        ]
        self._rules = rules

    def read(
        self, bodies: Sequence[bytes], known: Sequence[Parts], limits: Limits
    ) -> Iterator[tuple[int, SeriesRecord]]:
        """(its number, the record) of each body; those are left out that take the reader of single records,
        which may refuse them. ``known`` are the parts of each body's series."""
        for chosen in _portions(bodies):
            yield from self._together(
                [
                    _Reading(i, Scan(bodies[i], limits), known[i])
                    for i in chosen
                    if len(bodies[i]) <= limits.max_record_bytes
                ]
            )

    def _together(self, readings: list[_Reading]) -> Iterator[tuple[int, SeriesRecord]]:
        for run, fields in self._runs:
            readings = _run(run, readings) if run else [one for one in readings if _fields(fields, one)]
        for one in readings:
            if one.position == one.scan.size and self._keeps_rules(one):
                yield one.number, one.record

    def _keeps_rules(self, one: _Reading) -> bool:
        values = one.record.values
        try:
            for number, rule in enumerate(self._rules):
                part = one.record.parts.get(rule.steps[0] or "") if rule.steps else None
                if part is None:
                    rule.check(values, one.seen)
                    continue
                against = number, rule.lengths(values)
                if against not in part.kept:
                    rule.check(values, one.seen)
                    part.kept.add(against)
        except BadRecord:
            return False
        return True


def _fields(fields: Sequence[tuple[str, Reader, bool]], one: _Reading) -> bool:
    """Read fields that are no run; whether that went well."""
    values, scan, position = one.record.values, one.scan, one.position
    try:
        for name, reader, again in fields:
            if again:
                part, position = one.known.read(name, reader, scan, position)
                one.record.parts[name], values[name] = part, part.value
            else:
                values[name], position = reader(scan, position)
    except BadRecord:
        return False
    one.position = position
    return True


def _run(run: tuple[RunColumn, ...], readings: Sequence[_Reading]) -> list[_Reading]:
    """Read a run of all records; those are left where that went well."""
    pairs = [(one, found) for one in readings if (found := find_run(one.scan, one.position, run)) is not None]
    decoded = decode_runs(run, [found for _, found in pairs])
    if decoded is None and len(pairs) > 1:  # one of them is to blame
        return [one for pair in pairs for one in _run(run, [pair[0]])]
    for (one, _), columns in zip(pairs, decoded or (), strict=decoded is not None):
        one.record.values.update(columns.columns)
        one.seen.extremes.update(columns.extremes)
        one.position = columns.end
    return [one for one, _ in pairs] if decoded is not None else []


def _portions(bodies: Sequence[bytes]) -> Iterator[list[int]]:
    chosen: list[int] = []
    size = 0
    for i, body in enumerate(bodies):
        if chosen and size + len(body) > TOGETHER_BYTES:
            yield chosen
            chosen, size = [], 0
        chosen.append(i)
        size += len(body)
    if chosen:
        yield chosen
