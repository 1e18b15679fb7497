"""Which changes of breaches people hear of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.contract.records import Breach
from gpuledger.notify.book import Book, suppressed
from gpuledger.notify.notice import Kind
from tests.support.breaches import breach

S = 1_000_000_000


def told(book: Book, *changes: Breach) -> list[Kind | None]:
    notices = [book.take(change, number * S) for number, change in enumerate(changes, start=1)]
    return [notice and notice.kind for notice in notices]


def test_a_breach_is_told_when_it_fires_and_when_it_is_over() -> None:
    pending = breach("b", 1, "pending")
    assert told(Book(), pending, breach("b", 2), breach("b", 3, "resolved")) == [
        None,
        Kind.FIRING,
        Kind.RESOLVED,
    ]


def test_one_that_was_never_told_is_never_called_over() -> None:
    held = breach("b", 1, acknowledged_by="ada")
    assert told(Book(), held, breach("b", 2, "retracted")) == [None, None]
    assert told(Book(), breach("c", 1, "pending"), breach("c", 2, "resolved")) == [None, None]


def test_an_update_of_what_fires_is_no_news() -> None:
    assert told(Book(), breach("b", 1), breach("b", 2, spent_nano=1)) == [Kind.FIRING, None]


def test_a_change_that_comes_again_or_late_is_no_news() -> None:
    changes = (breach("b", 1), breach("b", 2, "resolved"), breach("b", 1), breach("b", 2, "resolved"))
    assert told(Book(), *changes) == [Kind.FIRING, Kind.RESOLVED, None, None]


def test_a_hold_is_told_once_and_what_fires_behind_it_is_not() -> None:
    held = {"acknowledged_by": "ada"}
    changes = (breach("b", 1), breach("b", 2, **held), breach("b", 3, **held), breach("b", 4))
    assert told(Book(), *changes) == [Kind.FIRING, Kind.ACKNOWLEDGED, None, Kind.FIRING]


def test_a_silence_that_ends_while_it_fires_is_a_reason_to_tell_it_anew() -> None:
    book = Book()
    assert told(book, breach("b", 1), breach("b", 2, silenced_until_ns=60 * S)) == [
        Kind.FIRING,
        Kind.SILENCED,
    ]
    assert not book.due(59 * S)
    assert [notice.kind for notice in book.due(60 * S)] == [Kind.FIRING]
    assert not book.due(61 * S)
    assert told(book, breach("b", 3, "resolved")) == [Kind.RESOLVED]


def test_an_acknowledgement_with_an_end_holds_until_then() -> None:
    book = Book()
    held = breach("b", 2, acknowledged_by="ada", acknowledged_until_ns=60 * S)
    assert told(book, breach("b", 1), held) == [Kind.FIRING, Kind.ACKNOWLEDGED]
    assert not book.due(59 * S)
    assert [notice.kind for notice in book.due(60 * S)] == [Kind.FIRING]


def test_what_was_told_and_is_pending_again_is_still_told_to_be_over() -> None:
    changes = (breach("b", 1), breach("b", 2, "pending"), breach("b", 3, "retracted"))
    assert told(Book(), *changes) == [Kind.FIRING, None, Kind.RETRACTED]


def test_a_new_target_is_owed_what_fires_and_is_not_held() -> None:
    book = Book()
    told(book, breach("a"), breach("b", acknowledged_by="ada"), breach("c"), breach("c", 2, "resolved"))
    book.owe_all()
    assert [notice.breach.id for notice in book.due(100 * S)] == ["a"]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["pending", "firing", "firing", "resolved", "retracted"]),
        st.sampled_from(["", "", "ada"]),
        st.sampled_from([None, None, 3 * S, 2**62]),
    ),
    max_size=12,
)


@given(CHANGES, st.lists(st.integers(0, 11), max_size=6))
def test_of_any_life_with_any_repetitions_firing_and_over_alternate(
    states: list[tuple[str, str, int | None]], repeated: list[int]
) -> None:
    changes = [
        breach("b", number, state, acknowledged_by=who, silenced_until_ns=until)
        for number, (state, who, until) in enumerate(states, start=1)
    ]
    for place in repeated:
        if place < len(changes):
            changes.insert(place + 1, changes[place])
    book, heard = Book(), []
    for at, change in enumerate(changes, start=1):
        notice = book.take(change, at * S)
        if notice is not None:
            heard.append(notice.kind)
            assert notice.kind is not Kind.FIRING or not suppressed(change, at * S)
    known = False
    for kind in heard:
        assert known or kind is Kind.FIRING  # nothing but a firing breach begins a life
        known = kind not in (Kind.RESOLVED, Kind.RETRACTED)
    assert heard == [n.kind for n in map(Book().take, changes, range(S, (len(changes) + 1) * S, S)) if n]
