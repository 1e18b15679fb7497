"""Money as integers: 1 nano = 1e-9 of a currency unit. No float ever touches an amount.

cum(t) = floor(unit_price_nano_per_hour x t / 3600e9), t in ns since the Unix epoch; the cost of [s, e) is
cum(e) - cum(s), so any run of windows adds up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from fractions import Fraction

NANO_PER_UNIT = 1_000_000_000
NS_PER_HOUR = 3_600_000_000_000


def cum(unit_price_nano_per_hour: int, t_ns: int) -> int:
    """Cost in nano from the Unix epoch to ``t_ns`` at a constant price."""
    return unit_price_nano_per_hour * t_ns // NS_PER_HOUR


def cost(unit_price_nano_per_hour: int, start_ns: int, end_ns: int) -> int:
    """Cost in nano of [start_ns, end_ns) at a constant price; 0 where the interval is empty."""
    if end_ns < start_ns:
        raise ValueError(f"the interval [{start_ns}, {end_ns}) ends before it starts")
    return cum(unit_price_nano_per_hour, end_ns) - cum(unit_price_nano_per_hour, start_ns)


def unit_share(total: int, unit: int, units: int) -> int:
    """Part of ``total`` that falls to unit ``unit`` of ``units``: floor((total + unit) / units).

    The parts sum to ``total``, and each is monotone in it, so splitting cum(t) splits every interval
    exactly (CHARGING.md, Splits).
    """
    if not 0 <= unit < units:
        raise ValueError(f"unit {unit} is not one of {units}")
    return (total + unit) // units


def slices_share(total: int, first: int, count: int, units: int) -> int:
    """Part of ``total`` that falls to units first .. first+count-1 of ``units``."""
    return sum(unit_share(total, unit, units) for unit in range(first, first + count))


def largest_remainder(total: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Divide the integer ``total`` in proportion to ``weights``; the parts sum to ``total`` exactly.

    Each part is the floor of its exact share, plus one for the largest remainders; ties go to the earlier
    weight, so the caller's order decides and must be a canonical one. ``total`` must not be negative, nor
    any weight; their sum must be positive unless total is 0.
    """
    if total < 0:
        raise ValueError(f"can not divide the negative total {total}")
    if any(weight < 0 for weight in weights):
        raise ValueError("a weight is negative")
    whole = sum(weights, Fraction(0))
    if whole == 0:
        if total:
            raise ValueError(f"nobody to give {total} to: all weights are zero")
        return [0] * len(weights)
    exact = [Fraction(weight) * total / whole for weight in weights]
    parts = [share.numerator // share.denominator for share in exact]
    left = total - sum(parts)
    order = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[:left]:
        parts[i] += 1
    return parts


def nano_from_decimal(text: str | int | Decimal) -> int:
    """An amount such as ``12.29`` in nano, rounded half even. Floats are refused: they lie about decimals."""
    if isinstance(text, float):
        raise TypeError("an amount must be given as text, int or Decimal, not float")
    try:
        amount = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no decimal amount") from error
    if not amount.is_finite():
        raise ValueError(f"{text!r} is no finite amount")
    return int((amount * NANO_PER_UNIT).to_integral_value(rounding=ROUND_HALF_EVEN))


def decimal_from_nano(nano: int) -> Decimal:
    """Exact decimal value of an amount in nano."""
    return Decimal(nano).scaleb(-9)


def format_nano(nano: int, digits: int = 9) -> str:
    """``12.290000000``; rounded half even to ``digits`` decimals."""
    rounded = decimal_from_nano(nano).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_EVEN)
    return format(rounded, "f")  # str() writes small ones with an exponent: 0E-9
