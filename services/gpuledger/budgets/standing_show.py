"""How budgets stand: a bar each for people, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpuledger.budgets.standing import Standing
from gpuledger.contract.windows import DAY_NS, NS_PER_S
from gpuledger.spend.words import duration, gpu_hours, money, time_of

BAR = 20  # characters for the whole amount
_WHOLE_PPM = 1_000_000


def shown(found: Sequence[Standing], now_ns: int) -> Group:
    """A table, those nearest to their end first, and what is wrong with the amounts."""
    table = Table()
    for name in ("budget", "period"):
        table.add_column(name, overflow="fold")
    table.add_column("", no_wrap=True)
    for name in ("spent", "of", "%", "burn 1h", "burn 6h", "forecast", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in sorted(found, key=lambda one: -_share(one)):
        table.add_row(*_row(one, now_ns), style=_style(one))
    if not found:
        return Group(Text("No budget holds now.", style="yellow"))
    return Group(table, *_remarks(found))


def _row(one: Standing, now_ns: int) -> Iterable[str | Text]:
    b = one.meter.budget
    share = _share(one)
    filled = min(BAR, int(share * BAR))
    over = "+" if share > 1 else ""
    yield b.name or b.id
    yield b.period if b.rolling_ns is None else f"last {duration(b.rolling_ns / NS_PER_S)}"
    yield "█" * filled + "░" * (BAR - filled) + over
    yield _amount(one, one.spent) + ("!" if one.unpriced_ns or one.unconverted_nano else "")
    yield _amount(one, one.meter.amount) + (f" {b.currency}" if one.meter.money else " GPU-h")
    yield f"{100 * share:.1f}"
    yield from (f"{pace:.1f}x" for pace in one.burn)
    yield _forecast(one)
    yield _left(one, now_ns)


def _forecast(one: Standing) -> str:
    if one.forecast is None:
        return "–"
    low, mean, high = (_amount(one, round(value)) for value in one.forecast)
    return f"{mean} ({low} to {high})" if one.by_history else f"{mean} at this pace"


def _left(one: Standing, now_ns: int) -> str:
    if one.spent >= one.meter.amount:
        return "used up"
    if one.used_up_ns is None:
        return "lasts" if one.forecast is not None else "–"
    return duration((one.used_up_ns - now_ns) / NS_PER_S)


def _style(one: Standing) -> str:
    if one.spent >= one.meter.amount:
        return "red"
    crossed = [ppm for ppm in one.meter.budget.thresholds_ppm.tolist() if ppm <= _share(one) * _WHOLE_PPM]
    return "yellow" if crossed or one.used_up_ns is not None else ""


def _remarks(found: Sequence[Standing]) -> Iterable[Text]:
    unpriced = max(one.unpriced_ns for one in found)
    if unpriced:
        text = (
            f"NO PRICE for up to {gpu_hours(unpriced)} GPU-hours of a budget (marked !): not in its amount."
        )
        yield Text(text, style="bold red")
    if any(one.unconverted_nano for one in found):
        text = "NO RATE into the budget's currency for some of the money (marked !): not counted."
        yield Text(text, style="bold red")
    for one in found:
        if one.counted_from_ns > one.period.start_ns:
            since = time_of(one.counted_from_ns // NS_PER_S)
            yield Text(f"{one.meter.budget.id} counts from {since} UTC, when it came to hold.", style="dim")
    yield Text(
        "burn: times the even pace; left: until the amount is used up by the forecast (8 of 10 in brackets).",
        style="dim",
    )


def as_json(one: Standing, now_ns: int) -> dict[str, Any]:
    """Amounts in nano-units of the currency, or in GPU-ns where ``unit`` is gpu_ns; instants in ns since the
    Unix epoch."""
    b = one.meter.budget
    forecast = one.forecast and {
        name: round(value) for name, value in zip(one.forecast._fields, one.forecast, strict=True)
    }
    left_ns = None if one.used_up_ns is None else one.used_up_ns - now_ns
    return {
        "id": b.id,
        "name": b.name,
        "scope": dict(b.scope),
        "period": b.period,
        "period_start_ns": one.period.start_ns,
        "period_end_ns": one.period.end_ns,
        "counted_from_ns": one.counted_from_ns,
        "unit": "nano" if one.meter.money else "gpu_ns",
        "currency": b.currency or None,
        "amount": one.meter.amount,
        "spent": one.spent,
        "spent_ratio": round(_share(one), 6),
        "burn_1h": round(one.burn[0], 4),
        "burn_6h": round(one.burn[1], 4),
        "forecast": forecast,
        "forecast_by_history": one.by_history,
        "used_up_ns": one.used_up_ns,
        "days_left": None if left_ns is None else round(left_ns / DAY_NS, 3),
        "thresholds_crossed_ppm": [
            ppm for ppm in b.thresholds_ppm.tolist() if one.spent * _WHOLE_PPM >= ppm * one.meter.amount
        ],
        "unpriced_ns": one.unpriced_ns,
        "unconverted_nano": one.unconverted_nano,
    }


def _share(one: Standing) -> float:
    return one.spent / one.meter.amount if one.meter.amount else 1.0


def _amount(one: Standing, amount: int) -> str:
    return money(amount) if one.meter.money else gpu_hours(amount)
