"""The windows before a range that speak into it: of each node the nearest with a keyframe or a goodbye."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from gpuledger.bus import Incoming
from gpuledger.bus.log import Log
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Holdings
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.processor.protocol import LogRecord, WindowRow, distinct
from gpuledger.processor.protocol.inputs import statement_of
from gpuledger.processor.reading import Decoder, log_record

FIRST_SPAN_NS = 10 * MINUTE_NS  # nearly every node has spoken within it
Headers = Callable[[Incoming], RecordHeaders]
Windows = dict[int, list[LogRecord]]


def earlier_statements(
    log: Log,
    decoder: Decoder,
    headers_of: Headers,
    partition: int,
    before_ns: int,
    end: int,
    wanted: Iterable[NodeKey],
    at_least_ns: int,
) -> dict[NodeKey, tuple[int, WindowRow]]:
    """(start, row) of the last window before ``before_ns`` that states something, for each node that has one.

    Reads backwards from the offset ``end``: as far as ``at_least_ns`` for nodes that nobody knows of, further
    for those ``wanted``, to the beginning of the log if need be. ``headers_of`` raises BadRecord for a record
    that is none of a window.
    """
    low = log.bounds(TELEMETRY, partition)[0]
    missing = set(wanted)
    windows: dict[NodeKey, Windows] = defaultdict(dict)
    found: dict[NodeKey, tuple[int, WindowRow]] = {}
    span_ns, seen_ns, begin = FIRST_SPAN_NS, 0, end
    while begin > low and (missing or seen_ns < at_least_ns):
        first = max(low, min(begin, log.offset_at(TELEMETRY, partition, before_ns - span_ns)))
        for message in log.read_range(TELEMETRY, partition, first, begin - 1):
            _take(message, headers_of, decoder, before_ns, windows)
        for key, of_node in windows.items():
            nearest = _nearest(of_node)
            if nearest is not None:
                found[key] = nearest
                missing.discard(key)
        begin, seen_ns, span_ns = first, span_ns, 2 * span_ns
    return found


def _take(
    message: Incoming,
    headers_of: Headers,
    decoder: Decoder,
    before_ns: int,
    windows: dict[NodeKey, Windows],
) -> None:
    try:
        headers = headers_of(message)
    except BadRecord:
        return
    if headers.window_start_ns >= before_ns or not (headers.keyframe or headers.goodbye):
        return
    record = log_record(message, headers)
    try:
        body = decoder.decode(message, headers)
    except BadRecord:
        return
    if record.keyframe and isinstance(body, Holdings):
        record = record._replace(layout=body.layout)
    windows[headers.id.node_key].setdefault(headers.window_start_ns, []).append(record)


def _nearest(windows: Windows) -> tuple[int, WindowRow] | None:
    for start in sorted(windows, reverse=True):
        inputs = distinct(windows[start])
        statement = statement_of(inputs)
        if statement is not None:
            offsets = [record.offset for record in inputs]
            return start, WindowRow(0, len(inputs), min(offsets), max(offsets), statement)
    return None
