"""Closed months under random restatements and closes: sums, what stays, and what order changes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.periods import Booked, keep
from tests.support.booked_months import HOURS, PERIODS, Amounts, Ledger

PAGE = (Path(__file__).parents[2] / "docs" / "periods.md").read_text()

amounts = st.dictionaries(st.sampled_from("abc"), st.integers(1, 1000), max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.integers(0, len(HOURS) - 1), amounts),
        st.just("close"),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=300)
@given(steps)
def test_months_sum_to_the_recomputation_and_a_closed_month_never_changes(history):
    ledger = Ledger()
    closed: dict[str, Amounts] = {}
    for step in history:
        if step == "close":
            if ledger.closed == PERIODS[-1]:
                continue
            ledger.close()
            closed[ledger.closed] = ledger.invoice(ledger.closed)
        else:
            ledger.restate(*step)
        for hour in range(len(HOURS)):
            sums: Amounts = defaultdict(int)
            for (_, team), amount in ledger.booked(hour).items():
                sums[team] += amount
            assert {team: amount for team, amount in sums.items() if amount} == ledger.present(hour)
        for period, invoice in closed.items():
            assert ledger.invoice(period) == invoice


@settings(deadline=None, max_examples=200)
@given(steps, st.data())
def test_writers_that_keep_twice_or_for_nothing_change_no_booking(history, data):
    """A batch repeated after a crash, a zombie, an hour that is written to and does not change."""
    plain, repeated = Ledger(), Ledger()
    for step in history:
        for ledger in (plain, repeated):
            if step == "close":
                if ledger.closed != PERIODS[-1]:
                    ledger.close()
            else:
                ledger.restate(*step)
        if step != "close" and data.draw(st.booleans()):
            repeated.prepare(step[0])
            repeated.prepare(step[0])
    for hour in range(len(HOURS)):
        assert repeated.booked(hour) == plain.booked(hour)


@settings(deadline=None, max_examples=300)
@given(steps)
def test_an_hour_is_booked_as_its_windows_are_booked_one_by_one(history):
    """Three windows of one hour, restated each for itself: a window that did not change since a close is the
    same in every state that was kept of its hour, so the differences of the hour are those of its windows."""
    windows = Ledger(hours=(PERIODS[0],) * len(HOURS))
    hour = Ledger(hours=(PERIODS[0],))
    for step in history:
        if step == "close":
            if hour.closed == PERIODS[-1]:
                continue
            hour.close()
            windows.close()
        else:
            windows.restate(*step)
            whole: Amounts = defaultdict(int)
            for window in range(len(HOURS)):
                for team, amount in windows.present(window).items():
                    whole[team] += amount
            hour.restate(0, dict(whole))
        for period in PERIODS:
            assert hour.invoice(period) == windows.invoice(period)


@settings(deadline=None)
@given(st.lists(amounts, min_size=1, max_size=5), amounts)
def test_a_correction_is_replaced_while_its_month_is_open(corrections, first):
    """Whatever was corrected in between, the month is the last state less what was booked."""
    ledger = Ledger()
    ledger.restate(1, first)
    ledger.close()
    ledger.close()
    for correction in corrections:
        ledger.restate(1, correction)
    assert ledger.invoice("2026-11") == first
    teams = {*first, *corrections[-1]}
    wanted = {team: corrections[-1].get(team, 0) - first.get(team, 0) for team in teams}
    assert ledger.invoice("2026-12") == {team: amount for team, amount in wanted.items() if amount}


def test_an_hour_that_came_first_after_its_month_was_closed_is_a_correction_whole():
    ledger = Ledger()
    ledger.close()
    ledger.restate(0, {"a": 7})
    assert (ledger.invoice("2026-10"), ledger.invoice("2026-11")) == ({}, {"a": 7})


def test_states_are_kept_in_order_whatever_order_they_are_read_in():
    first = keep((), "2026-11", "2026-11", 5)
    second = keep([first], "2026-11", "2027-01", 8)
    assert first == Booked("2026-11", "2026-11", 5)
    assert second == Booked("2027-01", "2026-12", 8)
    for kept in ([first, second], [second, first]):
        assert keep(kept, "2026-11", "2027-01", 9) is None
        assert keep(kept, "2026-11", "2027-02", 9) == Booked("2027-02", "2027-02", 9)
    assert keep((), "2026-12", "2026-11", 5) is None


def test_the_pages_table_is_what_the_definition_says():
    """docs/periods.md: a discount, another team, and the discount taken back, in three months."""
    ledger = Ledger(hours=("2026-11",), first="2026-11")
    steps = [
        ("5 December", "November is closed", {"vision": 122900}, True),
        ("10 December", "a discount of 10 % for November", {"vision": 110610}, False),
        ("20 December", "the pod is another team's", {"robots": 110610}, False),
        ("6 January", "December is closed", None, True),
        ("10 January", "the discount is taken back", {"robots": 122900}, False),
    ]
    for when, what, state, closes in steps:
        if state is not None:
            ledger.restate(0, state)
        if closes:
            ledger.close()
        months = [cell(ledger.invoice(month)) for month in ("2026-11", "2026-12", "2027-01")]
        row = [when, what, cell(ledger.present(0)), *months]
        assert "".join(f"| {text} " if text else "| " for text in row) + "|" in PAGE


def cell(invoice: Amounts) -> str:
    teams = sorted(invoice, key=("vision", "robots").index)
    return ", ".join(f"{team} {invoice[team] / 100:.2f}".replace("-", "\N{MINUS SIGN}") for team in teams)
