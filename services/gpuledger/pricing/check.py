"""What must hold of a price book as a whole: at each instant exactly one entry applies to a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, combinations_with_replacement, compress, islice, pairwise
from typing import NamedTuple

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.book import entry_match, precedence
from gpuledger.pricing.currencies import FOREVER_NS

MAX_PROBLEMS = 100  # nobody reads more at once


class Problem(NamedTuple):
    """What is wrong, and with which entry (its place in the list)."""

    place: int
    message: str


def check_book(book: PriceBookVersion) -> list[Problem]:
    """The problems of a book, in the order of its entries; of very many the first that are found."""
    entries = book.entries
    found = chain(_repeated(entries), _overlaps(entries), _gaps(entries), _unconvertible(book))
    return sorted(islice(found, MAX_PROBLEMS))


def day(instant_ns: int) -> str:
    """An instant for people."""
    if instant_ns >= FOREVER_NS:
        return "ever"
    return datetime.fromtimestamp(instant_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _end(entry: PriceEntry) -> int:
    return FOREVER_NS if entry.effective_to_ns is None else entry.effective_to_ns


def _repeated(entries: Sequence[PriceEntry]) -> Iterable[Problem]:
    """Ids that are there twice; the intervals of one spot series share theirs."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        first = entries[seen.setdefault(entry.id, index)]
        series = entry.kind == first.kind == "spot" and entry_match(entry) == entry_match(first)
        if first is not entry and not series:
            yield Problem(index, f"the id {entry.id} is there twice; ids are shown on charges")


def _overlaps(entries: Sequence[PriceEntry]) -> Iterable[Problem]:
    """Entries that could apply to one device at one instant with equal precedence: each with one of those.

    Of two kinds of match (which attributes they state) only entries that agree in what both state can meet;
    in order of time, an entry meets one of those before it where the latest of their ends is behind its
    start.
    """
    kinds: dict[tuple[int, int], dict[tuple[bool, ...], list[int]]] = {}
    for index, entry in enumerate(entries):
        stated = tuple(map(bool, entry_match(entry)))
        kinds.setdefault(precedence(entry), {}).setdefault(stated, []).append(index)
    for groups in kinds.values():
        for one, other in combinations_with_replacement(groups, 2):
            shared = [a and b for a, b in zip(one, other, strict=True)]
            sides = ((one, 0),) if one == other else ((one, 0), (other, 1))
            meeting: dict[tuple[str, ...], list[tuple[int, int]]] = {}
            for group, side in sides:
                for index in groups[group]:
                    key = tuple(compress(entry_match(entries[index]), shared))
                    meeting.setdefault(key, []).append((index, side))
            for members in meeting.values():
                yield from _meetings(entries, members, across=one != other)


def _meetings(
    entries: Sequence[PriceEntry], members: Sequence[tuple[int, int]], across: bool
) -> Iterable[Problem]:
    """Meetings in time of entries that can apply to one device; ``across``: of one side with the other."""
    latest: dict[int, int] = {}  # of each side, the entry that ends last so far
    for index, side in sorted(members, key=lambda member: (entries[member[0]].effective_from_ns, member)):
        entry = entries[index]
        before = latest.get(1 - side if across else side)
        if before is not None:
            low, high = entry.effective_from_ns, min(_end(entries[before]), _end(entry))
            if low < high:
                a, b = sorted((before, index))
                since = day(low) if low else "the beginning"
                yield Problem(
                    b,
                    f"{entries[b].id} and {entries[a].id} both apply to one device from {since} to "
                    f"{day(high)}; end one of them, or give one a priority",
                )
        if side not in latest or _end(entries[latest[side]]) < _end(entry):
            latest[side] = index


def _gaps(entries: Sequence[PriceEntry]) -> Iterable[Problem]:
    """Holes between entries that match the same, unless a wider entry covers them."""
    by_match: dict[tuple[str, ...], list[int]] = {}
    for index, entry in enumerate(entries):
        by_match.setdefault(entry_match(entry), []).append(index)
    for match, group in by_match.items():
        order = sorted(group, key=lambda i: (entries[i].effective_from_ns, _end(entries[i])))
        reach = _end(entries[order[0]])
        for before, after in pairwise(order):
            start = entries[after].effective_from_ns
            if start > reach and not _covered(entries, match, reach, start):
                yield Problem(
                    after,
                    f"no price from {day(reach)} to {day(start)}, between {entries[before].id} and "
                    f"{entries[after].id}; close the gap",
                )
            reach = max(reach, _end(entries[after]))


def _covered(entries: Sequence[PriceEntry], match: tuple[str, ...], start: int, end: int) -> bool:
    spans = sorted(
        (entry.effective_from_ns, _end(entry))
        for entry in entries
        if all(not mine or mine == theirs for mine, theirs in zip(entry_match(entry), match, strict=True))
    )
    for low, high in spans:
        if low <= start < high:
            start = high
    return start >= end


def _unconvertible(book: PriceBookVersion) -> Iterable[Problem]:
    """Entries in another currency without a rate for all of their time."""
    for index, entry in enumerate(book.entries):
        if entry.currency == book.currency:
            continue
        first = min(
            (
                rate.effective_from_ns
                for rate in book.rates
                if (rate.from_currency, rate.to_currency) == (entry.currency, book.currency)
            ),
            default=None,
        )
        if first is None or first > entry.effective_from_ns:
            yield Problem(
                index,
                f"{entry.id} is in {entry.currency}, and there is no rate to {book.currency} from "
                f"{day(entry.effective_from_ns)} on",
            )
