"""Which price books are refused for two prices of one device, against every pair of their entries."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.pricing import entry_match, precedence
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


@settings(max_examples=400)
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
