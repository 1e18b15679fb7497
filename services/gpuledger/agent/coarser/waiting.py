"""Records that wait in a segment, and which of them are a window from its first part to its last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuledger.agent.spool import Entry
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import Kind, RecordHeaders


class Waiting(NamedTuple):
    """A record in a segment: where it lies, and what its headers say; None where they say of no window."""

    offset: int
    size: int
    headers: RecordHeaders | None

    @staticmethod
    def of(entry: Entry, offset: int, behind: int) -> Waiting:
        """The entry that lies between two offsets."""
        try:
            headers = RecordHeaders.from_kafka(entry.key, entry.headers)
        except BadRecord:
            headers = None  # the statement of a node's life, or nothing that is understood here
        return Waiting(offset, behind - offset, headers)


class Place(NamedTuple):
    """A part of a window: which record of the segment it is, and its headers."""

    number: int
    headers: RecordHeaders


def whole_windows(segment: Sequence[Waiting]) -> Iterator[list[Place]]:
    """The parts of each window that lies whole in the segment. Only such a window is made coarser: a part
    that Kafka may have as it was, beside others that are coarser, would leave work without its end."""
    found: list[Place] = []
    for index, waiting in enumerate(segment):
        headers = waiting.headers
        if headers is None or headers.amendment:
            continue
        if found and _window(headers) != _window(found[0].headers):
            if _is_whole(found):
                yield found
            found = []
        found.append(Place(index, headers))
    if found and _is_whole(found):
        yield found


def _window(headers: RecordHeaders) -> tuple[str, int, int]:
    return headers.id.boot_id, headers.id.epoch_ns, headers.window_start_ns


def _is_whole(places: Sequence[Place]) -> bool:
    """Whether it has every part: from the keyframe on, or from the beginning of the epoch."""
    first = places[0].headers
    begins = first.keyframe if first.part == 0 else (first.part, first.id.sequence) == (1, 0)
    parts = [place.headers.part for place in places]
    in_order = parts == list(range(first.part, first.part + len(parts)))
    return first.kind is Kind.HOLDINGS and begins and in_order and places[-1].headers.last
