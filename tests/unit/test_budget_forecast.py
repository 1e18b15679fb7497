"""Forecasts of budgets on simulated fleets with weekdays, hours and growth, against what then happened."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.seasons import MOMENTS, Forecast, Season, forecasts, seasons, spent

FLEETS_OF_A_KIND = 4


@pytest.fixture(scope="module")
def found() -> list[Forecast]:
    return [one for season in seasons(FLEETS_OF_A_KIND) for one in forecasts(season)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_interval_holds_what_happens_as_often_as_it_states(found: list[Forecast], moment: float) -> None:
    held = [one.held for one in found if one.moment == moment]
    assert 0.77 <= np.mean(held) <= 0.92, f"{sum(held)} of {len(held)}"


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_model_errs_no_more_than_the_even_pace(found: list[Forecast], moment: float) -> None:
    mine = [one for one in found if one.moment == moment]
    errors = np.mean([one.error(one.expected.mean) for one in mine])
    assert errors < 1.05 * np.mean([one.error(one.pace) for one in mine])


def test_a_simulated_fleet_has_its_weekends_its_growth_and_its_seed() -> None:
    season = Season(seed=3, gpus=1000, weekend=0.3, growth=0.3, job_hours=3.0)
    days = spent(season, 56).reshape(56, -1).sum(axis=1)
    assert np.array_equal(days, spent(season, 56).reshape(56, -1).sum(axis=1))
    assert not np.array_equal(days, spent(season._replace(seed=10), 56).reshape(56, -1).sum(axis=1))
    weeks = days.reshape(8, 7)
    assert np.all(weeks.min(axis=1) < 0.6 * weeks.max(axis=1))
    assert weeks[7].sum() / weeks[0].sum() == pytest.approx(1.3 ** (49 / 30), rel=0.1)
    assert days.mean() / 24 == pytest.approx(1000 * (5 + 2 * 0.3) / 7 * 1.3, rel=0.15)
