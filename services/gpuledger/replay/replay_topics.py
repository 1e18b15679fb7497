"""The topics of one distributed replay, what is said on them, and in which words.

``telemetry`` has copies of the records of the range, ``charges`` what workers made of them, ``progress``
where each partition stands, ``request`` what is asked, and at last that it is over.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gpuledger.bus import BusAccess, Incoming, Outgoing
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import RecordId
from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion, decode, encode
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.protocol import LogRecord
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.request import Request, version
from gpuledger.replay.state import Position

ASKED, OVER = b"asked", b"over"
POSITION = b"position"
PLACE = "replay-place"
"""Header of a copy: offset and append time (ms) of the record in the log."""
END = "replay-end"
"""Header of the mark behind the last copy of a partition: the end of the log, its latest append time (ns)."""
SIDE = "replay-side"
"""Header of a set of charges: see ``state.Stored``."""


@dataclass(frozen=True, slots=True)
class ReplayTopics:
    """Their names, by the id of the replay."""

    replay: str

    @property
    def telemetry(self) -> str:
        """What workers read, with the partitions of gpu.telemetry."""
        return f"{self.prefix}.telemetry"

    @property
    def charges(self) -> str:
        """What they charge."""
        return f"{self.prefix}.charges"

    @property
    def progress(self) -> str:
        """How far they are; compacted."""
        return f"{self.prefix}.progress"

    @property
    def request(self) -> str:
        """What is asked."""
        return f"{self.prefix}.request"

    @property
    def group(self) -> str:
        """The workers' consumer group, and the beginning of their transactional ids."""
        return f"gpuledger-replay-{self.replay}"

    @property
    def prefix(self) -> str:
        """The beginning of every topic's name."""
        return f"gpu.replay.{self.replay}"

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic; the request comes last, so that who finds it finds all."""
        return self.telemetry, self.charges, self.progress, self.request


@dataclass(frozen=True, slots=True)
class End:
    """Nothing comes behind it: the log of the partition ended at an offset."""

    offset: int
    last_append_ns: int


def copy_of(message: Incoming, topics: ReplayTopics) -> Outgoing:
    """A record on its way to the workers."""
    place = f"{message.offset} {message.timestamp_ms}".encode()
    return Outgoing(
        topics.telemetry, message.key, message.value, (*message.headers, (PLACE, place)), message.partition
    )


def end_of(end: End, partition: int, topics: ReplayTopics) -> Outgoing:
    """The mark behind the last copy."""
    said = f"{end.offset} {end.last_append_ns}".encode()
    return Outgoing(topics.telemetry, None, None, ((END, said),), partition)


def original(copy: Incoming) -> Incoming | End:
    """What was copied, as it lay in the log. Raises BadRecord for what nobody copied."""
    name, said = copy.headers[-1] if copy.headers else ("", b"")
    first, space, second = (said or b"").partition(b" ")
    if name not in (PLACE, END) or not (space and first.isdigit() and second.lstrip(b"-").isdigit()):
        raise BadRecord("bad_header", f"offset {copy.offset} of {copy.topic} is no copy of a record")
    if name == END:
        return End(int(first), int(second))
    return Incoming(
        TELEMETRY, copy.partition, int(first), int(second), copy.key, copy.value, copy.headers[:-1]
    )


def position_to_bytes(position: Position, beyond: Iterable[LogRecord]) -> bytes:
    """Where a partition stands, as JSON."""
    records = [record._replace(layout=None) for record in beyond]
    return json.dumps({**asdict(position), "beyond": records}).encode()


def position_from_bytes(data: bytes) -> tuple[Position, list[LogRecord]]:
    """Inverse of ``position_to_bytes``."""
    said: dict[str, Any] = json.loads(data)
    records = [LogRecord(*values) for values in said.pop("beyond")]
    return Position(**said), [one._replace(identity=RecordId(*one.identity)) for one in records]


def request_to_bytes(request: Request) -> bytes:
    """What is asked, as JSON; where Kafka is and how to get in stays out of it."""
    said = {
        "version": version(),
        "fingerprint": request.fingerprint,
        "from_ns": request.from_ns,
        "to_ns": request.to_ns,
        "settings": request.settings.model_dump(mode="json"),
        "clusters": sorted(request.clusters),
        "archive": request.archive,
        "prices": None if request.prices is None else b64encode(encode(request.prices)).decode(),
        "teams": None if request.teams is None else b64encode(encode(request.teams)).decode(),
        "policy": request.policy,
        "generations": [asdict(generation) for generation in request.generations],
    }
    return json.dumps(said).encode()


def request_from_bytes(data: bytes, bus: BusAccess) -> Request:
    """Inverse of ``request_to_bytes``. Raises Refused where another version of gpuledger asks."""
    said: dict[str, Any] = json.loads(data)
    if said.get("version") != version():
        raise Refused(
            f"the replay was asked for by another version of gpuledger ({said.get('version')}), "
            f"and this is {version()}: start workers of the same"
        )
    request = Request(
        said["from_ns"],
        said["to_ns"],
        ProcessorSettings.model_validate(said["settings"]),
        bus,
        frozenset(said["clusters"]),
        said["archive"],
        None if said["prices"] is None else decode(PriceBookVersion, b64decode(said["prices"])),
        None if said["teams"] is None else decode(TeamMapVersion, b64decode(said["teams"])),
        said["policy"],
        tuple(Generation(**generation) for generation in said["generations"]),
    )
    if request.fingerprint != said["fingerprint"]:
        raise Refused("the replay is not what was asked for: its id is that of another")
    return request
