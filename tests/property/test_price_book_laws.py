"""Which price books are refused for two prices of one device, against every pair of their entries."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.pricing import PriceBook, PricedDevice, entry_match, precedence
from gpuledger.pricing.check import MAX_PROBLEMS, check_book

texts = st.sampled_from(["", "a", "b"])
ends = st.none() | st.integers(1, 9)


@st.composite
def books(draw: st.DrawFn) -> list[PriceEntry]:
    return [
        PriceEntry(
            f"p{number}",
            "gpu",
            1,
            "USD",
            effective_from_ns=draw(st.integers(0, 8)),
            effective_to_ns=draw(ends),
            cluster=draw(texts),
            region=draw(texts),
            gpu_model=draw(texts),
            priority=draw(st.integers(0, 1)),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


def clash(a: PriceEntry, b: PriceEntry) -> bool:
    """Whether both apply to one device at one instant, and neither goes first."""
    low = max(a.effective_from_ns, b.effective_from_ns)
    high = min(9 if one.effective_to_ns is None else one.effective_to_ns for one in (a, b))
    agree = all(not x or not y or x == y for x, y in zip(entry_match(a), entry_match(b), strict=True))
    return precedence(a) == precedence(b) and agree and low < high


@settings(max_examples=400, deadline=None)
@given(books())
def test_a_book_is_refused_where_two_entries_apply_to_one_device_at_once(entries):
    found = check_book(PriceBookVersion(1, 0, entries=entries))
    named = {tuple(one.message.split(" ")[:3:2]) for one in found if "both apply" in one.message}
    pairs = {(b.id, a.id) for a, b in combinations(entries, 2) if clash(a, b)}
    assert named <= pairs
    assert bool(named) == bool(pairs)


def test_of_very_many_problems_the_first_are_told():
    entries = [PriceEntry(f"p{i}", "gpu", 1, "USD") for i in range(10_000)]
    assert len(check_book(PriceBookVersion(1, 0, entries=entries))) == MAX_PROBLEMS


def test_a_long_list_is_checked_in_no_time():
    """Every pair of 20,000 would be two hundred million: minutes."""
    entries = [PriceEntry(f"p{i}", "gpu", 1, "USD", cluster=f"c{i}") for i in range(20_000)]
    assert check_book(PriceBookVersion(1, 0, entries=entries)) == []


def first_at(entries: list[PriceEntry], device: PricedDevice, at_ns: int) -> tuple[int, int, str] | None:
    """What goes first of all that applies, by looking at every entry."""
    fits = [
        (-entry.priority, -sum(map(bool, entry_match(entry))), entry.id)
        for entry in entries
        if entry.effective_from_ns <= at_ns
        and (entry.effective_to_ns is None or at_ns < entry.effective_to_ns)
        and all(
            not wanted or wanted == has
            for wanted, has in zip(entry_match(entry), device.match_key, strict=True)
        )
    ]
    return min(fits, default=None)


@settings(max_examples=300, deadline=None)
@given(books(), texts, texts, texts, st.integers(1, 40))
def test_the_entry_of_each_instant_is_the_first_of_all_that_apply(entries, cluster, region, model, kept):
    device = PricedDevice(cluster=cluster, region=region, gpu_model=model)
    book = PriceBook(PriceBookVersion(1, 0, entries=entries), kept)
    for at in range(11):
        entry = book.entry(device, at)
        expected = first_at(entries, device, at)
        assert (entry.id if entry else None) == (expected[2] if expected else None)


@settings(deadline=None)
@given(books(), st.integers(0, 10), st.integers(0, 10))
def test_the_pieces_of_an_interval_cover_it_without_gaps(entries, one, other):
    start, end = sorted((one, other))
    pieces = PriceBook(PriceBookVersion(1, 0, entries=entries)).pieces(PricedDevice(cluster="a"), start, end)
    assert [piece.start_ns for piece in pieces] == [start, *(piece.end_ns for piece in pieces[:-1])][
        : len(pieces)
    ]
    assert sum(piece.end_ns - piece.start_ns for piece in pieces) == end - start
