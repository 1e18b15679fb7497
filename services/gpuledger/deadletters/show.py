"""Refusals as a table, one as a page, and both as JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from gpuledger.bus import SchemaRegistry
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import DeadLetter
from gpuledger.deadletters.bodies import Body, decoded
from gpuledger.deadletters.book import Refusal, name_of

HEX_BYTES_A_LINE = 16
HEX_BYTES_SHOWN = 512
COLUMN_SHOWN = 8  # values of a column; its length is said


def table_of(refusals: Sequence[Refusal]) -> Table:
    """One line a refusal."""
    table = Table("record", "refused", "reason", "node", "window", "bytes", "state")
    for refusal in refusals:
        letter = refusal.letter
        table.add_row(
            name_of(refusal.place),
            time_of(letter.refused_ns),
            letter.reason if refusal.times == 1 else f"{letter.reason} ({refusal.times} times)",
            f"{letter.cluster}/{letter.node}" if letter.node else "",
            time_of(letter.window_start_ns),
            str(letter.value_bytes),
            state_of(refusal),
        )
    return table


def state_of(refusal: Refusal) -> str:
    """Its state in words."""
    if refusal.retry is not None and refusal.retry.place is not None:
        return f"retried as {name_of(refusal.retry.place)}"
    return refusal.state


def as_values(refusal: Refusal) -> dict[str, Any]:
    """A refusal for scripts; times in ns since the Unix epoch."""
    letter = refusal.letter
    retry = refusal.retry
    return {
        "record": name_of(refusal.place),
        "letter": name_of(refusal.kept_at),
        "times": refusal.times,
        "state": refusal.state,
        "retried_as": name_of(retry.place) if retry is not None and retry.place is not None else None,
        **{name: getattr(letter, name) for name in _PLAIN},
    }


def whole_values(refusal: Refusal, letter: DeadLetter, registry: SchemaRegistry) -> dict[str, Any]:
    """The same with key, headers, the value in hex, and the record where it can be decoded."""
    body = _body(letter, registry)
    return as_values(refusal) | {
        "key": None if letter.key is None else letter.key.hex(),
        "headers": [
            {"name": item.name, "value": None if item.value is None else item.value.hex()}
            for item in letter.headers
        ],
        "value": None if letter.value is None else letter.value.hex(),
        "body": body.fields if isinstance(body, Body) else None,
        "body_is": body.record if isinstance(body, Body) else None,
        "not_decoded": None if isinstance(body, Body) else str(body),
    }


def page_of(refusal: Refusal, letter: DeadLetter, registry: SchemaRegistry) -> Iterator[str]:
    """The lines of one refusal, for people."""
    yield f"{name_of(refusal.place)}: {letter.reason}"
    yield f"  {letter.detail}"
    times = "" if refusal.times == 1 else f", {refusal.times} times"
    yield f"  refused by {letter.stage} at {time_of(letter.refused_ns)}{times}; {state_of(refusal)}"
    yield f"  appended {time_of(letter.append_ns)}; kept in {name_of(refusal.kept_at)}"
    yield f"  key {_text(letter.key)}"
    if letter.epoch_ns is not None:
        yield f"  epoch {letter.boot_id}/{letter.epoch_ns}, sequence {letter.sequence}, mend {letter.mend}"
    if letter.window_start_ns is not None:
        yield f"  window {time_of(letter.window_start_ns)}"
    for item in letter.headers:
        yield f"  header {item.name}: {_text(item.value)}"
    yield f"  value of {letter.value_bytes} bytes"
    yield from (f"    {line}" for line in _hex_lines(letter.value or b""))
    body = _body(letter, registry)
    if isinstance(body, Body):
        yield f"  {body.record}"
        yield from _fields(body.fields, "    ")
    else:
        yield f"  can not be decoded: {body}"


def time_of(unix_ns: int | None) -> str:
    """As people read it, UTC; the number itself where it is no time of our calendar."""
    if not unix_ns:
        return ""
    try:
        return datetime.fromtimestamp(unix_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ns} ns"


_PLAIN = (
    "reason", "detail", "stage", "append_ns", "refused_ns", "cluster", "node", "boot_id", "epoch_ns",
    "sequence", "window_start_ns", "mend", "value_bytes",
)  # fmt: skip


def _body(letter: DeadLetter, registry: SchemaRegistry) -> Body | BadRecord:
    try:
        return decoded(letter.source_topic, letter.value, registry)
    except BadRecord as error:
        return error


def _text(octets: bytes | None) -> str:
    if octets is None:
        return "none"
    text = octets.decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else f"0x{octets.hex()}"


def _hex_lines(value: bytes) -> Iterator[str]:
    for at in range(0, min(len(value), HEX_BYTES_SHOWN), HEX_BYTES_A_LINE):
        line = value[at : at + HEX_BYTES_A_LINE]
        text = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in line)
        yield f"{at:08x}  {line.hex(' '):<{3 * HEX_BYTES_A_LINE - 1}}  {text}"
    if len(value) > HEX_BYTES_SHOWN:
        yield "... all of it with --body FILE, or --json"


def _fields(fields: Any, indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _fields(value, indent + "  ")
        elif isinstance(value, list) and len(value) > COLUMN_SHOWN:
            shown = ", ".join(map(str, value[:COLUMN_SHOWN]))
            yield f"{indent}{name}: {len(value)} values: {shown}, ..."
        else:
            yield f"{indent}{name}: {value}"
