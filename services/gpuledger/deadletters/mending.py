"""The mended copy of a refused record of gpu.telemetry: checked as the processor will, so that it counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuledger.bus import Incoming, Outgoing, SchemaRegistry
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.headers import RECORD_OF_KIND, Kind, RecordHeaders
from gpuledger.contract.identity import RecordId
from gpuledger.contract.records import DeadLetter
from gpuledger.contract.topics import TELEMETRY
from gpuledger.deadletters.bodies import decoded
from gpuledger.processor.protocol.inputs import is_out_of_time
from gpuledger.processor.reading import NS_PER_MS, Decoder, log_record
from gpuledger.processor.settings import ProcessorSettings

HOPELESS = {
    "retention": "retention took it before anybody read it",
    "window_full": "its window takes no more records, mended or not",
    "inputs_expired": "retention took other records of its window, which only an archive has:"
    " see `gpuledger replay`",
    "too_old": "a copy of it would arrive later still: see `gpuledger replay`",
}
CORE_SAYS = "the core can not charge this window"  # as processor.charging begins the detail of such a letter
OF_NO_WINDOW = frozenset(
    {"ahead_of_time", "wrong_grid", "wrong_partition", "bad_header", "bad_key", "bad_name"}
)
"""Reasons of records that were an input of no window: their copy may name another one."""
KIND_OF_RECORD = {record: kind for kind, record in RECORD_OF_KIND.items()}


@dataclass(frozen=True, slots=True)
class Copy:
    """What is sent, and by what it is found again in its topic."""

    outgoing: Outgoing
    headers: RecordHeaders


def mended_copy(
    letter: DeadLetter,
    value: bytes | None,
    edited: bool,
    registry: SchemaRegistry,
    settings: ProcessorSettings,
    now_ns: int,
) -> Copy:
    """The copy of a refused record with ``value``, which was ``edited`` or is as it was.

    Raises Refused where the processor would not use it, and says why; Unavailable.
    """
    if letter.reason in HOPELESS:
        raise Refused(HOPELESS[letter.reason])
    if edited and letter.detail.startswith(CORE_SAYS):
        raise Refused("the record itself can be read, and counts as it is: retry it without a mended body")
    if letter.reason == "ahead_of_time" and not edited:
        raise Refused("its clock was wrong: give it with the window that it belongs to, as --edit FILE")
    try:
        headers = replace(_headers(letter, value, edited, registry), mend=letter.mend + 1)
        key = headers.id.node_key.checked().key
        message = Incoming(TELEMETRY, 0, 0, now_ns // NS_PER_MS, key, value, tuple(headers.to_kafka()))
        Decoder(registry).decode(message, headers)
    except BadRecord as error:
        raise Refused(f"it would be refused again: {error}") from error
    _check_window(message, headers, settings)
    return Copy(Outgoing(TELEMETRY, key, value, message.headers), headers)


def _check_window(message: Incoming, headers: RecordHeaders, settings: ProcessorSettings) -> None:
    length_ns = settings.grid(headers.id.cluster).length_ns
    if headers.window_length_ns != length_ns:
        raise Refused(f"it would be refused again: the cluster's windows have {length_ns} ns [wrong_grid]")
    reason = is_out_of_time(log_record(message, headers), length_ns, settings.rules())
    if reason is not None:
        days = settings.oldest_days
        why = f"more than {days:g} days ago" if reason == "too_old" else "in the future"
        raise Refused(f"it would be refused again: its window is {why} [{reason}]")


def _headers(
    letter: DeadLetter, value: bytes | None, edited: bool, registry: SchemaRegistry
) -> RecordHeaders:
    """Those of the record; those of its body where they can not be read or may be mended too."""
    items = [(item.name, item.value) for item in letter.headers]
    try:
        stated = RecordHeaders.from_kafka(letter.key, items)
    except BadRecord:
        return _of_body(value, registry)
    if not (edited and letter.reason in OF_NO_WINDOW):
        return stated
    mended = _of_body(value, registry)
    if mended.id != stated.id:
        raise BadRecord("header_mismatch", "the mended body is another record's, by its epoch and sequence")
    return mended


def _of_body(value: bytes | None, registry: SchemaRegistry) -> RecordHeaders:
    body = decoded(TELEMETRY, value, registry)
    header = body.fields["header"]
    kind = KIND_OF_RECORD[body.record]  # type: ignore[index]
    return RecordHeaders(
        id=RecordId(*(header[name] for name in RecordId._fields)),
        kind=kind,
        keyframe=kind is Kind.HOLDINGS and bool(body.fields["keyframe"]),
        **{name: header[name] for name in _SHARED},
    )


_SHARED = ("window_start_ns", "window_length_ns", "part", "last", "amendment", "goodbye")
