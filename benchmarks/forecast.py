"""What budgets forecast, against what then happened on simulated fleets.

Run from the repository root: ``python -m benchmarks.forecast``. Fleets of 200 and 1,000 GPUs with a day and a
week of their own, from 10 % less to 30 % more each month, jobs of 3 and of 10 hours. At 25, 50 and 75 % of a
month the rest of it is forecast from the three weeks before. The figure is the mean error at half of the
month, as a share of the month; its baseline goes on at the even pace of the month so far. Beside it, for each
of the three, how often the interval held what happened; it states 8 of 10.
"""

from __future__ import annotations

import numpy as np

from benchmarks.figures import write_figure
from tests.support.seasons import MOMENTS, PERIOD_DAYS, Forecast, forecasts, seasons

FLEETS_OF_A_KIND = 12
STATED = 0.8


def main() -> None:
    found = [one for season in seasons(FLEETS_OF_A_KIND) for one in forecasts(season)]
    moments = {f"{moment:.0%}": _of([one for one in found if one.moment == moment]) for moment in MOMENTS}
    for name, said in moments.items():
        print(f"{name:>4} of the month: " + "  ".join(f"{key} {value:.3f}" for key, value in said.items()))
    half = moments["50%"]
    write_figure(
        "forecast",
        100 * half["error_mean"],
        "% of the month",
        100 * half["pace_error_mean"],
        half["error_mean"] / half["pace_error_mean"],
        len(found) // len(MOMENTS),
        baseline_name="the even pace of the month so far, at half of the month",
        interval_states=STATED,
        period_days=PERIOD_DAYS,
        moments=moments,
        by_growth={
            f"{growth:+.0%}": _of([one for one in found if one.season.growth == growth])
            for growth in sorted({one.season.growth for one in found})
        },
    )


def _of(found: list[Forecast]) -> dict[str, float]:
    errors = [one.error(one.expected.mean) for one in found]
    return {
        "interval_held": float(np.mean([one.held for one in found])),
        "error_mean": float(np.mean(errors)),
        "error_p90": float(np.quantile(errors, 0.9)),
        "interval_half_width": float(
            np.mean([(one.expected.high - one.expected.low) / 2 / one.total for one in found])
        ),
        "pace_error_mean": float(np.mean([one.error(one.pace) for one in found])),
    }


if __name__ == "__main__":
    main()
