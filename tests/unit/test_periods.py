"""Months and their closing: names, borders, and what is refused with which words."""

from __future__ import annotations

import pytest

from gpuledger.configuration.periods import plan_close
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.periods import closed_through, end_ns, following, is_period, period_of
from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.yaml_values import instant_ns

DECEMBER = instant_ns("2026-12-05T10:00:00Z")


def closed(*periods: str) -> list[PeriodsVersion]:
    return [PeriodsVersion(number, number, name, author="a") for number, name in enumerate(periods, 1)]


def test_a_month_ends_where_the_next_begins():
    for period, behind in (("2026-11", "2026-12"), ("2026-12", "2027-01"), ("2024-02", "2024-03")):
        assert following(period) == behind
        assert period_of(end_ns(period)) == behind
        assert period_of(end_ns(period) - 1) == period


def test_what_is_no_month_is_none():
    assert is_period("2026-11")
    assert not any(map(is_period, ("2026-13", "2026-00", "2026-1", "26-11", "2026-11-01", "", "2026-11 ")))
    with pytest.raises(ConfigError, match="'2026-13' is no month"):
        plan_close("2026-13", [], DECEMBER)


def test_a_month_is_closed_for_what_comes_a_minute_later():
    planned = plan_close("2026-11", closed("2026-10"), DECEMBER, "finance", "invoiced")
    assert planned.active_from_ns >= DECEMBER + 60 * NS_PER_S
    assert (planned.version, planned.closed_through, planned.author) == (2, "2026-11", "finance")
    versions = [*closed("2026-10"), planned]
    assert closed_through(versions, planned.active_from_ns - 1) == "2026-10"
    assert closed_through(versions, planned.active_from_ns) == "2026-11"
    assert closed_through([], DECEMBER) == ""


def test_a_month_that_is_not_over_stays_open():
    with pytest.raises(Refused, match="2026-12 is not over before 2027-01-01"):
        plan_close("2026-12", closed("2026-11"), DECEMBER)
    plan_close("2026-12", closed("2026-11"), end_ns("2026-12"))


def test_a_month_is_closed_once():
    with pytest.raises(Refused, match=r"2026-11 is closed already, since .* by a"):
        plan_close("2026-11", closed("2026-10", "2026-11"), DECEMBER)
    with pytest.raises(Refused, match="2026-09 is closed already"):
        plan_close("2026-09", closed("2026-10"), DECEMBER)


def test_months_are_closed_in_order():
    with pytest.raises(Refused, match="2026-10 is still open"):
        plan_close("2026-11", closed("2026-09"), DECEMBER)
    assert plan_close("2026-10", closed("2026-09"), DECEMBER).closed_through == "2026-10"
    # the first that is closed closes all before it
    assert plan_close("2026-11", [], DECEMBER).version == 1
