"""Kafka record headers of gpu.telemetry: enough to place a record whose body can not be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records.node import Header

PREFIX = "gpuledger-"
KEYFRAME = "keyframe"
FLAGS = f"{PREFIX}flags"
MAX_HEADER_VALUE_BYTES = 128  # the longest is a boot id with its epoch: 57 bytes


LONG_BITS, INT_BITS = 63, 31  # of Avro's two integers, without the sign: no header has a negative number


class Kind(Enum):
    """What a telemetry record carries."""

    EVENTS = "events"
    SAMPLES = "samples"
    HOLDINGS = "holdings"


RECORD_OF_KIND: dict[Kind, Literal["EventBatch", "SampleBatch", "Holdings"]] = {
    Kind.EVENTS: "EventBatch",
    Kind.SAMPLES: "SampleBatch",
    Kind.HOLDINGS: "Holdings",
}


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """Identity and place of a telemetry record, as its Kafka headers state them."""

    id: RecordId
    kind: Kind
    window_start_ns: int
    window_length_ns: int
    part: int
    last: bool
    amendment: bool = False
    goodbye: bool = False
    keyframe: bool = False
    mend: int = 0

    @staticmethod
    def of(header: Header, kind: Kind, keyframe: bool = False) -> RecordHeaders:
        """What a record with this header says of itself."""
        return RecordHeaders(
            id=RecordId(header.cluster, header.node, header.boot_id, header.epoch_ns, header.sequence),
            kind=kind,
            window_start_ns=header.window_start_ns,
            window_length_ns=header.window_length_ns,
            part=header.part,
            last=header.last,
            amendment=header.amendment,
            goodbye=header.goodbye,
            keyframe=keyframe,
            mend=header.mend,
        )

    def to_kafka(self) -> list[tuple[str, bytes]]:
        """As Kafka headers: decimal numbers and short words in ASCII."""
        flags = [
            name
            for name, value in (
                ("last", self.last),
                ("amendment", self.amendment),
                ("goodbye", self.goodbye),
                (KEYFRAME, self.keyframe),
            )
            if value
        ]
        values = {
            "epoch": f"{self.id.boot_id}/{self.id.epoch_ns}",
            "sequence": str(self.id.sequence),
            "kind": self.kind.value,
            "window": f"{self.window_start_ns}/{self.window_length_ns}",
            "part": str(self.part),
            "flags": ",".join(flags),
            "mend": str(self.mend),
        }
        return [(PREFIX + name, value.encode("ascii")) for name, value in values.items()]

    @staticmethod
    def from_kafka(key: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> RecordHeaders:
        """Inverse of ``to_kafka``; the node comes from the record's key. Raises BadRecord."""
        node = NodeKey.from_key(key)
        found = {name: value for name, value in headers if name.startswith(PREFIX)}
        text = {name: _text(found, name) for name in ("epoch", "kind", "window", "flags")}
        boot_id, _, epoch = text["epoch"].rpartition("/")
        start, _, length = text["window"].partition("/")
        flags = set(filter(None, text["flags"].split(",")))
        try:
            kind = Kind(text["kind"])
        except ValueError as error:
            raise BadRecord("bad_header", f"kind {text['kind']!r} is not known", "headers") from error
        window_start_ns, window_length_ns = _number(start, "window"), _number(length, "window")
        if window_length_ns == 0 or window_start_ns % window_length_ns:
            raise BadRecord("bad_header", "the window is not aligned to its length", "headers")
        return RecordHeaders(
            id=RecordId(
                *node, boot_id, _number(epoch, "epoch"), _number(_text(found, "sequence"), "sequence")
            ),
            kind=kind,
            window_start_ns=window_start_ns,
            window_length_ns=window_length_ns,
            part=_number(_text(found, "part"), "part", INT_BITS),
            last="last" in flags,
            amendment="amendment" in flags,
            goodbye="goodbye" in flags,
            keyframe=KEYFRAME in flags,
            mend=_number(_text(found, "mend"), "mend", INT_BITS),
        )


def _text(found: dict[str, bytes | None], name: str) -> str:
    value = found.get(PREFIX + name)
    if value is None:
        raise BadRecord("bad_header", f"the header {PREFIX}{name} is missing", "headers")
    if len(value) > MAX_HEADER_VALUE_BYTES:
        raise BadRecord(
            "bad_header", f"the header {PREFIX}{name} is over {MAX_HEADER_VALUE_BYTES} bytes", "headers"
        )
    try:
        return value.decode("ascii")
    except UnicodeDecodeError as error:
        raise BadRecord("bad_header", f"the header {PREFIX}{name} is not ASCII", "headers") from error


def _number(text: str, name: str, bits: int = LONG_BITS) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) >> bits:
        raise BadRecord("bad_header", f"the header {PREFIX}{name} has no number where one belongs", "headers")
    return int(text)
