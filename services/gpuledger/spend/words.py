"""Amounts, shares, changes and trends as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from gpuledger.contract.money import NANO_PER_UNIT, NS_PER_HOUR, format_nano

_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_FEW_NANO = 10 * NANO_PER_UNIT  # below ten units cents are too coarse


def money(nano: int | None) -> str:
    """``1,234.50``; four decimals below ten units; a dash where nothing has a price."""
    if nano is None:
        return "–"
    whole, _, rest = format_nano(nano, 2 if abs(nano) >= _FEW_NANO or nano == 0 else 4).partition(".")
    sign = "-" if whole.startswith("-") else ""
    return f"{sign}{int(whole.lstrip('-')):,}.{rest}"


def gpu_hours(ns: int) -> str:
    """``12.5``; more decimals below ten, and below a tenth."""
    hours = ns / NS_PER_HOUR
    if hours >= 10 or ns == 0:
        return f"{hours:,.1f}"
    return f"{hours:.2f}" if hours >= 0.1 else f"{hours:.4f}"


def percent(part: int | None, whole: int | None) -> str:
    """``12.3 %`` of the whole; a dash where there is none."""
    return f"{100 * part / whole:.1f} %" if part is not None and whole else "–"


def change(now: int | None, before: int | None) -> str:
    """``+12 %``; ``new`` where there was nothing before."""
    if now is None:
        return "–"
    if not before:
        return "new" if now else "–"
    return f"{100 * (now - before) / before:+,.0f} %"


def sparkline(rates: Sequence[float]) -> str:
    """One character a value, the tallest for the greatest; a dot for nothing."""
    top = max(rates, default=0.0)
    if top <= 0:
        return _NOTHING * len(rates)
    steps = len(_BARS) - 1
    return "".join(_BARS[round(steps * rate / top)] if rate > 0 else _NOTHING for rate in rates)


def time_of(at_s: int) -> str:
    """``2026-12-01 17:25`` (UTC)."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """``45 s``, ``20 min``, ``5 h``, ``3.5 d``."""
    for unit, length, digits in (("d", 86_400, 1), ("h", 3_600, 1), ("min", 60, 0)):
        if seconds >= length * (2 if unit == "d" else 1):
            return f"{seconds / length:.{digits}f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"
