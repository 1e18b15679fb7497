"""What is no mistake in a price list, and what whoever wrote it should know: where it has no price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.pricing.book import entry_match
from gpuledger.pricing.check import day
from gpuledger.pricing.currencies import FOREVER_NS
from gpuledger.pricing.devices import MATCH_FIELDS, ON_DEMAND

MAX_NOTICES = 50
_CAPACITY = MATCH_FIELDS.index("capacity_type")
UNPRICED = "charged in GPU time, with its money missing"


def notices(book: PriceBookVersion) -> list[str]:
    """One sentence for each; the most serious first."""
    if not book.entries:
        return [f"There is no price at all: every device is {UNPRICED}."]
    found = [*_without_price(book.entries), *_provisional(book.entries), *_spot_as_on_demand(book.entries)]
    more = len(found) - MAX_NOTICES
    return found if more <= 0 else [*found[:MAX_NOTICES], f"And {more} more."]


def _without_price(entries: Sequence[PriceEntry]) -> Iterator[str]:
    """Time before the first and after the last price of what is matched, unless a wider one covers it."""
    groups: dict[tuple[str, ...], list[PriceEntry]] = {}
    for entry in entries:
        groups.setdefault(entry_match(entry), []).append(entry)
    for match, group in groups.items():
        first = min(entry.effective_from_ns for entry in group)
        last = max(_end(entry) for entry in group)
        wider = [entry for wide in _wider(match) for entry in groups.get(wide, ())]
        if first > 0 and not any(entry.effective_from_ns < first for entry in wider):
            yield f"{_told(match)}: no price before {day(first)}; it is {UNPRICED}."
        if last < FOREVER_NS and not any(_end(entry) > last for entry in wider):
            yield f"{_told(match)}: no price from {day(last)} on; it is {UNPRICED}."
    if not any(not any(match) for match in groups):
        yield f"A device that none of these prices matches is {UNPRICED}."


def _provisional(entries: Sequence[PriceEntry]) -> Iterator[str]:
    for entry in entries:
        if entry.provisional:
            yield (
                f"{entry.id.rpartition(':')[0]}: known until {day(entry.effective_from_ns)}; what is later "
                "costs its last price and is flagged as provisional."
            )


def _spot_as_on_demand(entries: Sequence[PriceEntry]) -> Iterator[str]:
    """Prices that a spot node would be charged at, since they are for every capacity type."""
    spot = {entry_match(entry) for entry in entries if entry.capacity_type == "spot"}
    any_capacity = [
        entry.id
        for entry in entries
        if not entry.capacity_type
        and (entry.instance_type or entry.gpu_model)
        and entry.kind in ("list", "negotiated")
        and not any(_agree(entry_match(entry), match) for match in spot)
    ]
    if any_capacity:
        yield (
            f"Spot nodes are charged at {_names(any_capacity)} too, since these state no capacity_type: "
            f"say {ON_DEMAND} where spot costs something else."
        )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _end(entry: PriceEntry) -> int:
    return FOREVER_NS if entry.effective_to_ns is None else entry.effective_to_ns


def _wider(match: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every match that states less of the same: of a long list one look-up each, not all of its entries."""
    stated = [place for place, value in enumerate(match) if value]
    for count in range(len(stated)):
        for kept in combinations(stated, count):
            yield tuple(value if place in kept else "" for place, value in enumerate(match))


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(
        not a or not b or a == b
        for place, (a, b) in enumerate(zip(one, other, strict=True))
        if place != _CAPACITY
    )


def _told(match: tuple[str, ...]) -> str:
    stated = [f"{name}={value}" for name, value in zip(MATCH_FIELDS, match, strict=True) if value]
    return " ".join(stated) or "Everything"
