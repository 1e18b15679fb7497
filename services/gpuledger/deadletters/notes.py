"""What a retry leaves in gpu.dead-letters: a note before its copy is sent, and one that says where it lies.

So nobody sends a copy twice by accident: who finds the first note alone looks whether the copy is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from gpuledger.bus import Placed
from gpuledger.contract.identity import RecordId
from gpuledger.contract.records import DeadLetter, HeaderItem
from gpuledger.contract.topics import TELEMETRY
from gpuledger.deadletters.book import RETRIED, RETRYING, Refusal, Retry, name_of, place_from, source_of

STAGE = "dead-letters"
PLACE_HEADER = "gpuledger-retried-as"
Key: TypeAlias = Placed | tuple[RecordId, int]


def note(letter: DeadLetter, retry: Retry) -> DeadLetter:
    """The letter that tells of a retry of ``letter``."""
    where = [] if retry.place is None else [HeaderItem(PLACE_HEADER, name_of(retry.place).encode())]
    return replace(
        letter,
        reason=RETRYING if retry.place is None else RETRIED,
        detail="",
        stage=STAGE,
        value=None,
        value_bytes=0,
        headers=where,
        refused_ns=retry.at_ns,
    )


def is_note(letter: DeadLetter) -> bool:
    """Whether a letter tells of a retry, not of a refusal."""
    return letter.stage == STAGE


def apply(notes: Iterable[DeadLetter], refusals: Iterable[Refusal]) -> None:
    """Say of each refusal what its notes tell. A copy that is told to be sent stays sent."""
    retries: dict[Key, Retry] = {}
    for letter in notes:
        retry = Retry(letter.refused_ns, _place(letter))
        known = retries.get(key_of(letter))
        if known is None or known.place is None:
            retries[key_of(letter)] = retry
    for refusal in refusals:
        refusal.retry = retries.get(key_of(refusal.letter))


def key_of(letter: DeadLetter) -> Key:
    """What one copy mends: an input of gpu.telemetry, wherever it lies; else the record at its place."""
    if letter.source_topic == TELEMETRY and letter.epoch_ns is not None and letter.sequence is not None:
        identity = RecordId(letter.cluster, letter.node, letter.boot_id, letter.epoch_ns, letter.sequence)
        return identity, letter.mend
    return source_of(letter)


def _place(letter: DeadLetter) -> Placed | None:
    for item in letter.headers:
        if item.name == PLACE_HEADER and item.value is not None:
            return place_from(item.value.decode())
    return None
