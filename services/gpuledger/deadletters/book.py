"""The dead letters of a cluster, each record once, with what has been done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.bus import Placed
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import DeadLetter
from gpuledger.contract.topics import DEAD_LETTERS

WAITING, RETRYING, RETRIED = "waiting", "retrying", "retried"


class Retry(NamedTuple):
    """What is known of a retry: when it was told, and where the copy lies. None: begun, perhaps not sent."""

    at_ns: int
    place: Placed | None


@dataclass(slots=True)
class Refusal:
    """A refused record. ``letter`` has no value, it may be large; ``read_whole`` fetches it."""

    letter: DeadLetter
    kept_at: Placed
    """Where the letter lies in gpu.dead-letters."""
    times: int = 1
    retry: Retry | None = None

    @property
    def place(self) -> Placed:
        """Where the record lay when it was refused: its name for people."""
        return source_of(self.letter)

    @property
    def next_mend(self) -> int:
        """The mend number of its copy: one above its own, so that a copy sent twice counts once."""
        return self.letter.mend + 1

    @property
    def state(self) -> str:
        """waiting, retrying or retried."""
        if self.retry is None:
            return WAITING
        return RETRIED if self.retry.place is not None else RETRYING


@dataclass(slots=True)
class Book:
    """Every refusal by the place of its record, in the order in which they were told."""

    refusals: dict[Placed, Refusal] = field(default_factory=dict)
    unreadable: int = 0
    """Letters that can not be read themselves."""

    def at(self, place: Placed) -> Refusal:
        """The refusal of the record at a place. Raises Refused where there is none."""
        found = self.refusals.get(place)
        if found is None:
            raise Refused(
                f"no record of {name_of(place)} is in {DEAD_LETTERS}; see `gpuledger dead-letters list`"
            )
        return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which refusals are asked for; an empty one asks for all. Times are those of the refusal, Unix ns."""

    topic: str = ""
    reason: str = ""
    cluster: str = ""
    node: str = ""
    since_ns: int | None = None
    until_ns: int | None = None
    waiting: bool = False

    def has(self, refusal: Refusal) -> bool:
        """Whether it is one of them."""
        letter = refusal.letter
        asked = ((self.topic, letter.source_topic), (self.reason, letter.reason),
                 (self.cluster, letter.cluster), (self.node, letter.node))  # fmt: skip
        return (
            all(wanted in ("", value) for wanted, value in asked)
            and (self.since_ns is None or letter.refused_ns >= self.since_ns)
            and (self.until_ns is None or letter.refused_ns < self.until_ns)
            and not (self.waiting and refusal.state == RETRIED)
        )


def source_of(letter: DeadLetter) -> Placed:
    """Where the refused record lay."""
    return Placed(letter.source_topic, letter.source_partition, letter.source_offset)


def name_of(place: Placed) -> str:
    """A place as people write it: TOPIC/PARTITION/OFFSET."""
    return f"{place.topic}/{place.partition}/{place.offset}"


def place_from(text: str) -> Placed:
    """Inverse of ``name_of``. Raises ValueError."""
    topic, partition, offset = text.rsplit("/", 2)
    if not topic or not (
        partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()
    ):
        raise ValueError(f"{text!r} is no place")
    return Placed(topic, int(partition), int(offset))
