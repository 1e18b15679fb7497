"""One line of Tetragon's JSON export: what it says of a CUDA call.

Source of the fields: api/v1/tetragon (events.proto, tetragon.proto) of cilium/tetragon, written as protojson
with the names of the proto: 64-bit numbers may be texts, times are RFC 3339 with up to nine digits.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gpuledger.contract.clock import NS_PER_S

POLICY_PREFIX: Final = "gpuledger-cuda"
"""Names of our policies begin so: another's events on the same functions would count a call twice."""

_NUMBERS: Final = ("size_arg", "uint_arg", "long_arg", "int_arg")
_DIGITS: Final = re.compile(r"-?[0-9]{1,20}")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_MAX_TEXT: Final = 512  # a name longer than that is no name
_U64: Final = 1 << 64


class UnreadableLine(ValueError):
    """A line that is no event of Tetragon's, or not whole."""


@dataclass(frozen=True, slots=True)
class Call:
    """The entry of a function. ``container_id`` and ``pod_uid`` are empty where Tetragon does not say;
    ``started_ns`` is when the program began (execve). Times are ns since the Unix epoch."""

    time_ns: int
    symbol: str
    arguments: tuple[int, ...]
    exec_id: str
    pid: int
    tid: int
    started_ns: int
    pod_uid: str = ""
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Tetragon says that it did not export so many events."""

    events: int


def read_line(line: bytes) -> Call | Dropped | None:
    """What the line says; None where it is an event of another kind or policy. Raises UnreadableLine."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableLine(str(error)) from error
    if not isinstance(event, dict):
        raise UnreadableLine("no object")
    if "rate_limit_info" in event:
        dropped = _object(event, "rate_limit_info").get("number_of_dropped_process_events", 0)
        return Dropped(max(0, _number(dropped)))
    if "process_uprobe" not in event:
        return None
    uprobe = _object(event, "process_uprobe")
    if not _text(uprobe, "policy_name").startswith(POLICY_PREFIX):
        return None
    return _call(event, uprobe)


def _call(event: dict[str, Any], uprobe: dict[str, Any]) -> Call:
    process = _object(uprobe, "process")
    pod = process.get("pod") or {}
    if not isinstance(pod, dict):
        raise UnreadableLine("pod is no object")
    container = pod.get("container") or {}
    if not isinstance(container, dict):
        raise UnreadableLine("container is no object")
    pid = _process_id(process.get("pid"))
    return Call(
        time_ns=_time_ns(event.get("time")),
        symbol=_text(uprobe, "symbol"),
        arguments=_arguments(uprobe.get("args") or []),
        exec_id=_text(process, "exec_id"),
        pid=pid,
        tid=_process_id(process.get("tid", pid)),
        started_ns=_time_ns(process.get("start_time")),
        pod_uid=_text(pod, "uid"),
        container_id=_text(container, "id").rpartition("//")[2],
    )


def _arguments(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(isinstance(argument, dict) for argument in given):
        raise UnreadableLine("args is no list of objects")
    values = []
    for argument in given:
        kind = next((name for name in _NUMBERS if name in argument), None)
        values.append(_number(argument[kind]) % _U64 if kind else 0)  # as the register holds it
    return tuple(values)


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name)
    if not isinstance(found, dict):
        raise UnreadableLine(f"{name} is no object")
    return found


def _text(parent: dict[str, Any], name: str) -> str:
    found = parent.get(name, "")
    if not isinstance(found, str) or len(found) > _MAX_TEXT:
        raise UnreadableLine(f"{name} is no text")
    return found


def _number(value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_U64 < value < _U64:
        raise UnreadableLine("no number")
    return value


def _process_id(value: Any) -> int:
    found = _number(value)
    if not 0 < found < 1 << 32:
        raise UnreadableLine(f"{found} is no process id")
    return found


def _time_ns(value: Any) -> int:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UnreadableLine("no time")
    try:
        whole = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
    except ValueError as error:
        raise UnreadableLine(str(error)) from error
    seconds = int((whole - datetime.fromtimestamp(0, UTC)).total_seconds())
    return seconds * NS_PER_S + int((match[2] or "").ljust(9, "0"))
