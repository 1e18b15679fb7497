"""Reading gpu.dead-letters, and the record that a letter speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuledger.bus import Incoming, PartitionReader, SchemaRegistry, unframed
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.records import DeadLetter
from gpuledger.contract.topics import DEAD_LETTERS
from gpuledger.deadletters import notes
from gpuledger.deadletters.book import Book, Refusal, name_of


def read_book(reader: PartitionReader, registry: SchemaRegistry, since_ns: int | None = None) -> Book:
    """All letters that are kept, or those told since. Raises Unavailable, ConfigError without a topic."""
    found: dict[notes.Key, Refusal] = {}
    told: list[DeadLetter] = []
    book = Book()
    for message in _messages(reader, since_ns):
        try:
            letter = replace(_letter(message, registry), value=None)
        except BadRecord:
            book.unreadable += 1
            continue
        if notes.is_note(letter):
            told.append(letter)
        else:
            _add(found, letter, message)
    notes.apply(told, found.values())
    ordered = sorted(found.values(), key=lambda refusal: (refusal.letter.refused_ns, refusal.place))
    book.refusals = {refusal.place: refusal for refusal in ordered}
    return book


def read_whole(reader: PartitionReader, registry: SchemaRegistry, refusal: Refusal) -> DeadLetter:
    """The letter with the record's value; one too large for a letter is read from where it lies.

    Raises Refused where retention took it, Unavailable.
    """
    kept = refusal.kept_at
    letter = refusal.letter
    for message in reader.read_range(*kept, kept.offset):
        letter = _letter(message, registry)
    if letter.value is not None or not letter.value_bytes:
        return letter
    for message in reader.read_range(*refusal.place, refusal.place.offset):
        return replace(letter, value=message.value)
    raise Refused(
        f"its {letter.value_bytes} bytes were too many for a letter, and {name_of(refusal.place)} is gone"
    )


def _messages(reader: PartitionReader, since_ns: int | None) -> Iterator[Incoming]:
    for partition in range(reader.partitions(DEAD_LETTERS)):
        first = None if since_ns is None else reader.offset_at(DEAD_LETTERS, partition, since_ns)
        yield from reader.read_to_end(DEAD_LETTERS, partition, first)


def _letter(message: Incoming, registry: SchemaRegistry) -> DeadLetter:
    return unframed(DeadLetter, message.value, registry)


def _add(found: dict[notes.Key, Refusal], letter: DeadLetter, message: Incoming) -> None:
    """A record that was refused again, by the next owner or in a restatement, is one refusal."""
    known = found.get(notes.key_of(letter))
    if known is None:
        found[notes.key_of(letter)] = Refusal(letter, message.place)
    else:
        known.letter, known.kept_at, known.times = letter, message.place, known.times + 1
