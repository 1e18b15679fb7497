"""What must hold of a price book as a whole: at each instant exactly one entry applies to a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import NamedTuple

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.book import FOREVER_NS, entry_match, precedence


class Problem(NamedTuple):
    """What is wrong, and with which entry (its place in the list)."""

    place: int
    message: str


def check_book(book: PriceBookVersion) -> list[Problem]:
    """All problems of a book, in the order of its entries."""
    entries = book.entries
    problems = [*_repeated(entries), *_overlaps(entries), *_gaps(entries), *_unconvertible(book)]
    return sorted(problems)


def day(instant_ns: int) -> str:
    """An instant for people."""
    if instant_ns >= FOREVER_NS:
        return "ever"
    return datetime.fromtimestamp(instant_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _end(entry: PriceEntry) -> int:
    return FOREVER_NS if entry.effective_to_ns is None else entry.effective_to_ns


def _repeated(entries: Sequence[PriceEntry]) -> Iterable[Problem]:
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if seen.setdefault(entry.id, index) != index:
            yield Problem(index, f"the id {entry.id} is there twice; ids are shown on charges")


def _overlaps(entries: Sequence[PriceEntry]) -> Iterable[Problem]:
    """Pairs that could apply to one device at one instant with equal precedence."""
    by_precedence: dict[tuple[int, int], list[int]] = {}
    for index, entry in enumerate(entries):
        by_precedence.setdefault(precedence(entry), []).append(index)
    for group in by_precedence.values():
        for one, other in combinations(group, 2):
            a, b = entries[one], entries[other]
            low, high = max(a.effective_from_ns, b.effective_from_ns), min(_end(a), _end(b))
            if low < high and _compatible(entry_match(a), entry_match(b)):
                yield Problem(
                    other,
                    f"{b.id} and {a.id} both apply to one device from {day(low)} to {day(high)}; end one of "
                    "them, or give one a priority",
                )


def _compatible(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    return all(not x or not y or x == y for x, y in zip(a, b, strict=True))


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
