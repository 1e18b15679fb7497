"""From the records of one window to what is known of it: repeats, completeness, keyframe, goodbye.

All of it is a function of the set of records, never of how or when the window was closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.contract.identity import RecordId
from gpuledger.processor.protocol.values import Label, LogRecord, Rules, Statement


def is_out_of_time(record: LogRecord, window_ns: int, rules: Rules) -> str | None:
    """Why a record is an input of no window, judged by its own append time alone; None where it is one."""
    if record.window_start_ns > record.append_ns + rules.ahead_ns:
        return "ahead_of_time"
    if record.window_start_ns + window_ns + rules.oldest_ns < record.append_ns:
        return "too_old"
    return None


def distinct(records: Iterable[LogRecord]) -> tuple[LogRecord, ...]:
    """Each input once, that of the lowest offset, by offset. An input is an identity and a mend number."""
    found: dict[tuple[RecordId, int], LogRecord] = {}
    for record in sorted(records, key=lambda r: r.offset):
        found.setdefault((record.identity, record.mend), record)
    return tuple(sorted(found.values(), key=lambda r: r.offset))


def within_bounds(
    inputs: Sequence[LogRecord], rules: Rules
) -> tuple[tuple[LogRecord, ...], tuple[LogRecord, ...]]:
    """(inputs of a window, those it has no place for), of its distinct records by offset.

    The first record beyond a bound is still an input, and refused: so the revision tells the full window
    from the one before it, and its cost is unobserved. Which one that is, the log alone decides.
    """
    size_bytes = 0
    for at, record in enumerate(inputs):
        size_bytes += record.size_bytes
        if is_full(at + 1, size_bytes, rules):
            return (*inputs[:at], record._replace(readable=False)), tuple(inputs[at + 1 :])
    return tuple(inputs), ()


def is_full(records: int, size_bytes: int, rules: Rules) -> bool:
    """Whether a window of so many distinct inputs takes no more."""
    return records > rules.window_records or size_bytes > rules.window_bytes


def usable(inputs: Sequence[LogRecord]) -> tuple[LogRecord, ...]:
    """The readable inputs, one of each identity: what a window is charged from."""
    found: dict[RecordId, LogRecord] = {}
    for record in inputs:
        if record.readable:
            found.setdefault(record.identity, record)
    return tuple(found.values())


def refused(inputs: Sequence[LogRecord]) -> tuple[LogRecord, ...]:
    """The inputs that can not be read and that no readable copy stands for."""
    readable = {record.identity for record in inputs if record.readable}
    return tuple(r for r in inputs if not r.readable and r.identity not in readable)


def label_of(inputs: Sequence[LogRecord]) -> Label:
    """Complete, incomplete or refused, for the distinct inputs of a window that has some."""
    if refused(inputs):
        return Label.REFUSED
    parts = [record for record in usable(inputs) if not record.amendment]
    numbers = sorted(record.part for record in parts)
    last = [record.part for record in parts if record.last]
    one_epoch = len({record.identity.epoch for record in parts}) == 1
    if one_epoch and last and numbers == list(range(last[0] + 1)):
        return Label.COMPLETE
    return Label.INCOMPLETE


def statement_of(inputs: Sequence[LogRecord]) -> Statement | None:
    """What the window says about those behind it: its first readable keyframe, and a goodbye."""
    readable = usable(inputs)
    goodbyes = [record.append_ns for record in readable if record.goodbye]
    keyframes = [record for record in readable if record.keyframe]
    if not goodbyes and not keyframes:
        return None
    return Statement(
        layout=keyframes[0].layout if keyframes else None,
        keyframe_offset=keyframes[0].offset if keyframes else -1,
        goodbye=bool(goodbyes),
        goodbye_append_ns=goodbyes[0] if goodbyes else None,
    )
