"""The span of a report, and which view answers for which part of it."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gpuledger.contract.errors import UserError
from gpuledger.contract.windows import NS_PER_S
from gpuledger.spend import Question, Span, Spending, span_of, stretches
from gpuledger.spend.show import shown
from gpuledger.spend.words import change, money, percent, sparkline
from gpuledger.warehouse import Grain

HOUR = 3600
NOW = 1_796_083_200 + 17 * HOUR + 25 * 60  # 2026-12-01T17:25:00Z


def test_a_span_ends_now_or_where_it_is_said_to() -> None:
    assert span_of("24h", None, NOW * NS_PER_S) == Span(NOW - 24 * HOUR, NOW)
    assert span_of("2 w", "2026-12-01", NOW * NS_PER_S) == Span(1_796_083_200 - 14 * 24 * HOUR, 1_796_083_200)
    assert span_of("2026-12-01T10:00:00Z", None, NOW * NS_PER_S).length_s == 7 * HOUR + 25 * 60


@pytest.mark.parametrize("since", ["yesterday", "0h", "2026-12-02", "99999w", "10:00"])
def test_a_span_that_is_none_is_refused(since: str) -> None:
    with pytest.raises(UserError, match="--since"):
        span_of(since, None, NOW * NS_PER_S)


def test_whole_hours_come_from_the_stored_sums_and_the_rest_from_windows() -> None:
    found = stretches(Span(NOW - 24 * HOUR, NOW), NOW, fine=False)
    edge = NOW - 25 * 60
    assert [(part.grain, part.span) for part in found] == [
        (Grain.WINDOW, Span(NOW - 24 * HOUR, edge - 23 * HOUR)),
        (Grain.HOUR, Span(edge - 23 * HOUR, edge)),
        (Grain.WINDOW, Span(edge, NOW)),
    ]


def test_what_is_older_than_windows_are_kept_is_read_by_whole_hours() -> None:
    found = stretches(Span(NOW - 60 * 24 * HOUR, NOW - 40 * 24 * HOUR), NOW, fine=False)
    start = NOW - 25 * 60 - 60 * 24 * HOUR
    assert [(part.grain, part.span) for part in found] == [
        (Grain.HOUR, Span(start, start + 20 * 24 * HOUR + HOUR))
    ]


@given(st.integers(1, 70 * 24 * HOUR), st.integers(0, 70 * 24 * HOUR), st.booleans())
def test_stretches_cover_the_span_once_and_hours_are_whole(length: int, ago: int, fine: bool) -> None:
    span = Span(NOW - ago - length, NOW - ago)
    found = stretches(span, NOW, fine)
    assert found[0].span.start_s <= span.start_s
    assert found[-1].span.until_s >= span.until_s
    assert all(a.span.until_s == b.span.start_s for a, b in pairwise(found))
    for part in found:
        assert part.span.length_s > 0
        if part.grain is Grain.HOUR:
            assert part.span.start_s % HOUR == part.span.until_s % HOUR == 0
        else:
            assert span.start_s <= part.span.start_s < part.span.until_s <= span.until_s


@given(st.integers(10, 400 * 24 * HOUR))
def test_a_trend_has_few_buckets_that_cover_the_span(length: int) -> None:
    buckets = Span(NOW - length, NOW).buckets
    assert len(buckets) <= 25
    assert (buckets[0].start_s, buckets[-1].until_s) == (NOW - length, NOW)
    assert all(a.until_s == b.start_s for a, b in pairwise(buckets))


def test_amounts_read_as_money() -> None:
    assert money(1_234_567_890_000) == "1,234.57"
    assert money(-1_234_567_890_000) == "-1,234.57"
    assert money(3_400_000) == "0.0034"
    assert money(None) == "–"
    assert (percent(1, 3), percent(1, 0), percent(None, 3)) == ("33.3 %", "–", "–")
    assert (change(112, 100), change(5, None), change(None, 7)) == ("+12 %", "new", "–")


def test_a_trend_tells_nothing_from_little() -> None:
    assert sparkline([0, 1, 1000, 500]) == "·▁█▅"
    assert sparkline([0, 0]) == "··"


def test_a_narrow_terminal_loses_columns_and_never_digits() -> None:
    question = Question("workload", Span(NOW - 24 * HOUR, NOW))
    amounts = dict.fromkeys(("used", "held_idle", "unallocated", "unobserved", "total", "effectively_used"))
    one = Spending(
        ("prod", "vision", "Deployment/inference"),
        "USD",
        nano=amounts | {"used": 1_234_567_890_000_000, "total": 9_876_543_210_000_000},
        trend_nano=[1] * len(question.span.buckets),
    )
    for width in (60, 80, 120, 200):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(shown(question, [one], 10, width))
        told = console.export_text()
        assert "1,234,567.89" in told
        assert "9,876,543.21" in told
        assert "…" not in told
        assert ("Left out for want of width: trend" in told) == (width < 200)
