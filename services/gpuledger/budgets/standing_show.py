"""How budgets stand: a bar each for people, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpuledger.budgets.standing import Standing
from gpuledger.contract.windows import DAY_NS, NS_PER_S
from gpuledger.spend import fitted
from gpuledger.spend.words import duration, gpu_hours, money, time_of

BAR = 16  # characters for the whole amount
NAME_WIDTH = 18  # characters; longer names are folded
DROPPABLE = ("burn 6h", "period", "bar", "forecast", "burn 1h")
"""In the order in which a narrow terminal goes without them."""
_WHOLE_PPM = 1_000_000


def shown(found: Sequence[Standing], now_ns: int, width: int) -> Group:
    """A table as wide as ``width`` allows, the fullest first, and what is wrong with the amounts."""
    if not found:
        return Group(Text("No budget holds now.", style="yellow"))
    ordered = sorted(found, key=lambda one: -_share(one))
    return Group(fitted(width, partial(_table, ordered, now_ns), DROPPABLE), *_remarks(found))


def _table(found: Sequence[Standing], now_ns: int, without: Collection[str]) -> Table:
    rows = [(_cells(one, now_ns), _style(one)) for one in found]
    columns = [name for name in rows[0][0] if name not in without]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in columns:
        is_text = name in ("budget", "period")
        table.add_column(
            name,
            justify="left" if is_text or name == "bar" else "right",
            no_wrap=not is_text,
            overflow="fold",
            min_width=NAME_WIDTH if name == "budget" else None,
        )
    for cells, style in rows:
        table.add_row(*(cells[name] for name in columns), style=style)
    return table


def _cells(one: Standing, now_ns: int) -> dict[str, str]:
    b = one.meter.budget
    share = _share(one)
    filled = min(BAR, int(share * BAR))
    return {
        "budget": b.name or b.id,
        "period": b.period if b.rolling_ns is None else f"last {duration(b.rolling_ns / NS_PER_S)}",
        "bar": "█" * filled + "░" * (BAR - filled) + ("+" if share > 1 else ""),
        "spent": _amount(one, one.spent) + ("!" if one.unpriced_ns or one.unconverted_nano else ""),
        "of": _amount(one, one.meter.amount) + (f" {b.currency}" if one.meter.money else " GPU-h"),
        "%": f"{100 * share:.1f}",
        "burn 1h": f"{one.burn[0]:.1f}x",
        "burn 6h": f"{one.burn[1]:.1f}x",
        "forecast": _forecast(one),
        "left": _left(one, now_ns),
    }


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
            yield Text(
                f"{one.meter.budget.id} counts from {since} UTC, from when on it is effective.", style="dim"
            )
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
