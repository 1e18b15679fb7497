"""Numbers that drivers report and that are no measurements (DCGM and NVML sentinels, values seen)."""

import pytest

from gpuledger.agent.samplers.hygiene import (
    ABSURD,
    BLANK,
    bytes_of,
    bytes_of_rate,
    celsius_of,
    hz_of,
    ratio_of_percent,
    watts_of,
)


@pytest.mark.parametrize(("percent", "ratio"), [(0, 0.0), (37, 0.37), (100, 1.0), (101.5, 1.0)])
def test_a_percentage_is_a_ratio(percent: float, ratio: float) -> None:
    assert ratio_of_percent(percent) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("percent", "reason"),
    [
        (float("nan"), BLANK),
        (-1, BLANK),
        (2147483632, BLANK),
        (2147483635, BLANK),
        (4294967295, BLANK),
        (140737488355328.0, BLANK),
        (140737488355331.0, BLANK),
        (9.223372036854776e18, BLANK),
        (float("inf"), BLANK),
        (106, ABSURD),
        (1_000, ABSURD),
        (37_100, ABSURD),
        (200_000, ABSURD),
    ],
)
def test_no_percentage_is_a_reason_and_never_a_number(percent: float, reason: str) -> None:
    assert ratio_of_percent(percent) == reason


def test_a_size_lies_on_its_device() -> None:
    assert bytes_of(0) == 0
    assert bytes_of(80 << 30, 80 << 30) == 80 << 30
    assert bytes_of((80 << 30) + 1, 80 << 30) == ABSURD
    assert bytes_of(None) == BLANK
    assert bytes_of(0xFFFF_FFFF_FFFF_FFFF) == BLANK
    assert bytes_of(0x7FFF_FFFF_FFFF_FFF2) == BLANK
    assert bytes_of(-1) == BLANK


def test_power_is_in_watts_and_bounded() -> None:
    assert watts_of(350_500) == 350.5
    assert watts_of(0x7FFF_FFF0) == BLANK
    assert watts_of(20_000_000) == ABSURD
    assert watts_of(-5) == BLANK


def test_rates_temperatures_and_clocks_are_bounded_too() -> None:
    assert bytes_of_rate(3.0, 2.0) == 6 << 20
    assert bytes_of_rate(float("nan"), 1.0) == BLANK
    assert bytes_of_rate(140737488355328.0, 1.0) == BLANK
    assert bytes_of_rate(1e8, 1.0) == ABSURD
    assert celsius_of(34) == 34.0
    assert celsius_of(0x7FFF_FFF1) == BLANK
    assert celsius_of(1000) == ABSURD
    assert hz_of(1980) == 1.98e9
    assert hz_of(0x7FFF_FFF0) == BLANK
    assert hz_of(100_000) == ABSURD
