"""Money by hand."""

import pytest

from gpuledger.contract import money


def test_ten_seconds_of_a_gpu_at_12_29_an_hour() -> None:
    """12.29 / 360 = 0.0341388..., floor of differences from the epoch."""
    price = money.nano_from_decimal("12.29")
    assert money.cost(price, 0, 10 * 10**9) == 34_138_888
    assert money.cost(price, 0, money.NS_PER_HOUR) == 12_290_000_000


def test_ties_go_to_the_earlier_weight() -> None:
    assert money.largest_remainder(2, [1, 1, 1]) == [1, 1, 0]


def test_seven_slices_of_eight_nano() -> None:
    assert [money.unit_share(8, unit, 7) for unit in range(7)] == [1, 1, 1, 1, 1, 1, 2]


def test_rounding_is_half_even() -> None:
    assert money.nano_from_decimal("0.0000000005") == 0
    assert money.nano_from_decimal("0.0000000015") == 2
    assert money.format_nano(12_345_678_905, 2) == "12.35"


def test_a_float_amount_is_refused() -> None:
    with pytest.raises(TypeError, match="not float"):
        money.nano_from_decimal(0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["abc", "NaN", "Infinity", ""])
def test_text_that_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="amount"):
        money.nano_from_decimal(text)


def test_an_interval_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before"):
        money.cost(1, 2, 1)


def test_a_unit_outside_the_device_is_refused() -> None:
    with pytest.raises(ValueError, match="not one of"):
        money.unit_share(7, 7, 7)


def test_a_small_amount_is_written_without_an_exponent():
    """Decimal writes 0 nano as 0E-9 and 5 nano as 5E-9."""
    assert [money.format_nano(nano) for nano in (0, 5, -5)] == ["0.000000000", "0.000000005", "-0.000000005"]
    assert money.format_nano(12_290_000_000, 2) == "12.29"
