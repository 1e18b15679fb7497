"""How sure a recommendation is, under which settings, and how it is said."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gpuledger.contract.errors import ConfigError
from gpuledger.recommend import (
    Evidence,
    Settings,
    read_settings,
    recommend,
)
from gpuledger.recommend.saving import MONTH_S, Part, batch_saving, next_count, saving
from gpuledger.recommend.show import nothing, shown
from gpuledger.spend import Span
from tests.support.evidence import HOUR_S, MONDAY_S, NANO, PRICE_NANO, evidence, hours, workload
from tests.support.recommended import only

ROOT = Path(__file__).parents[2]
WEEK = 168


def test_the_interval_is_students_over_days() -> None:
    """Days of 24, 48 and 72: 48 a day, t(2) = 2.920, deviation 24: 48 +- 2.920 x 24 / sqrt(3)."""
    days = [Part(day * 86_400, 86_400, amount * NANO, 0) for day, amount in enumerate((24, 48, 72))]
    found = saving(days)
    month = MONTH_S / 86_400
    assert (found.nano or 0) / NANO == pytest.approx(48 * month)
    assert (found.high_nano or 0) / NANO == pytest.approx((48 + 2.920 * 24 / 3**0.5) * month)
    assert (found.low_nano or 0) / NANO == pytest.approx((48 - 2.920 * 24 / 3**0.5) * month)


def test_what_the_ledger_is_unsure_of_widens_the_interval() -> None:
    sure = hours(48, used=0.02)
    unsure = [hour._replace(low_ns=0, high_ns=2 * hour.used_ns) for hour in sure]
    narrow, wide = (only(evidence(48, workloads=[workload(found)])).saving for found in (sure, unsure))
    assert narrow.nano == wide.nano
    assert (wide.high_nano or 0) - (narrow.high_nano or 0) == pytest.approx(0.02 * PRICE_NANO * 730, rel=1e-6)


@pytest.mark.parametrize(("pods", "stays"), [(1, 0.05), (3, 0.368), (20, 0.861)])
def test_less_than_three_days_say_no_more_than_their_pods_do(pods: int, stays: float) -> None:
    """Ten equal hours have no spread. Of n pods that all stayed at least 0.05^(1/n) stay as long again."""
    parts = [Part(MONDAY_S + number * HOUR_S, HOUR_S, 5 * NANO, 0) for number in range(10)]
    found = saving(parts, pods)
    assert (found.low_nano or 0) / (found.nano or 1) == pytest.approx(stays, abs=1e-3)
    assert (found.low_nano or 0) + (found.high_nano or 0) == pytest.approx(2 * (found.nano or 0), rel=1e-9)
    week = [Part(MONDAY_S + number * HOUR_S, HOUR_S, 5 * NANO, 0) for number in range(WEEK)]
    assert saving(week, pods).low_nano == saving(week, pods).nano


@pytest.mark.parametrize(("seen", "low", "high"), [(1, 0, 5.08), (3, 0.08, 8.63), (100, 78.05, 124.65)])
def test_of_pods_that_come_and_go_the_next_number_lies_as_far_as_counts_do(
    seen: int, low: float, high: float
) -> None:
    """(sqrt(n + 3/8) -+ 1.645 sqrt(1/2))^2 - 3/8."""
    assert next_count(seen) == (pytest.approx(low, abs=0.1), pytest.approx(high, abs=0.1))


@pytest.mark.parametrize("mean", [1, 3, 10, 40])
def test_nine_of_ten_times_the_next_number_lies_there(mean: float) -> None:
    random = np.random.default_rng(23)
    first, second = random.poisson(mean, 20_000), random.poisson(mean, 20_000)
    bounds = [next_count(int(count)) for count in first]
    held = [low <= count <= high for count, (low, high) in zip(second, bounds, strict=True)]
    assert 0.89 <= sum(held) / len(held) <= 0.97


def test_a_promise_for_batch_work_is_as_wide_as_its_pods_are_few_and_reaches_what_is_there_now() -> None:
    def bounds(pods: int, last: int) -> tuple[float, float]:
        amounts = [5] * (WEEK - 1) + [last]
        parts = [Part(MONDAY_S + n * HOUR_S, HOUR_S, amount * NANO, 0) for n, amount in enumerate(amounts)]
        found = batch_saving(parts, pods)
        assert found.nano == saving(parts, pods).nano
        return (found.low_nano or 0) / (5 * NANO * 730), (found.high_nano or 0) / (5 * NANO * 730)

    assert bounds(pods=3, last=5) == (pytest.approx(0.027, abs=0.01), pytest.approx(2.88, abs=0.01))
    assert bounds(pods=100, last=5) == (pytest.approx(0.78, abs=0.01), pytest.approx(1.25, abs=0.01))
    assert bounds(pods=100, last=25)[1] == pytest.approx(5 * 1.2465, abs=0.01)
    assert batch_saving([Part(0, 3600, None, 5)], 3) == saving([Part(0, 3600, None, 5)], 3)


def test_one_block_of_evidence_says_nothing_of_its_spread() -> None:
    found = saving([Part(0, 3600, 5 * NANO, 0)])
    assert (found.low_nano, found.high_nano) == (0, 2 * (found.nano or 0))


def test_the_example_settings_are_read(tmp_path: Path) -> None:
    settings = read_settings(ROOT / "deploy" / "examples" / "recommendations.yaml")
    assert (settings.of("research").idle_hours, settings.of("ads").idle_hours) == (72, 24)
    assert settings.of("research").time_zone == "Europe/Berlin"


def test_evidence_of_a_minute_is_idle_under_the_demo_s_limits_alone_and_says_so() -> None:
    """It begins and ends within one hour, and only that part of the hour is its length."""
    minute = Evidence(
        Span(MONDAY_S + 1200, MONDAY_S + 1260),
        [workload([hours(1)[0]._replace(total_ns=60 * NANO, total_nano=60, idle_nano=60)])],
    )
    limits = read_settings(ROOT / "deploy" / "demo" / "recommendations.yaml")
    found = only(minute, limits)
    assert (found.rule, found.evidence) == ("warm_idle", minute.span)
    assert found.saving.nano == MONTH_S
    assert (found.saving.low_nano, found.saving.high_nano) == (0, 2 * MONTH_S)
    assert recommend(minute, Settings()) == []
    assert "yet: there are 1 min of evidence, the limits ask for 24 h" in nothing(minute, Settings()).plain


def test_where_nothing_is_recommended_the_words_say_why() -> None:
    busy = evidence(48, workloads=[workload(hours(48, used=0.9))])
    assert "held is used" in nothing(busy, Settings()).plain
    assert "nothing of this time" in nothing(evidence(48), Settings()).plain


def test_a_recommendation_fits_the_width_that_it_is_given() -> None:
    found = recommend(evidence(48, workloads=[workload(hours(48))]), Settings())
    for width in (60, 100):
        text = "\n".join(part.plain for part in shown(found, False, width))
        risk = text.partition("   risk")[2].splitlines()
        assert all(len(line) <= width for line in risk)
        assert risk[1].startswith(" " * 12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: prices\n", "kind: recommendations"),
        ("kind: recommendations\nactiv_percent: 3\n", "activ_percent"),
        ("kind: recommendations\nactive_percent: 0\n", "greater than 0"),
        ("kind: recommendations\nwork_hours: [20, 7]\n", "in order"),
        ("kind: recommendations\ntime_zone: Mars\n", "no time zone"),
        ("kind: recommendations\nteams: {a: {idle_hours: soon}}\n", "idle_hours"),
        ("kind: recommendations\nteams: {a: {spot_price_ratio: 0.3}}\n", "spot_price_ratio"),
        ("kind: [", "no YAML"),
    ],
)
def test_wrong_settings_are_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)) as raised:
        read_settings(path)
    assert str(path) in str(raised.value)
