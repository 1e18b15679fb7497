"""A breach in words."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.records import Breach
from gpuledger.contract.windows import HOUR_NS, NS_PER_S

CROSSED = "the line was crossed"  # why a breach begins; its message says which line, not this again
BEFORE_VERSION = "before this version of the budgets"  # why it is told only now
MONEY_DIGITS = 2
_PPM_OF_PERCENT = 10_000
_SAYS = {
    "pending": "may be crossing",
    "firing": "has crossed",
    "resolved": "is past",
    "retracted": "had not crossed",
}


def sentence(breach: Breach) -> str:
    """One sentence for people: what, how much, since when, and when it will be used up."""
    name = breach.budget_name or breach.budget_id
    told = (
        f"{name} {_SAYS[breach.state]} {_line(breach)}: {_spent(breach)} since {_day(breach.period_start_ns)}"
    )
    if breach.forecast_low_ns is not None and breach.forecast_high_ns is not None:
        low, high = _day(breach.forecast_low_ns), _day(breach.forecast_high_ns)
        told += f", used up {low}" if low == high else f", used up between {low} and {high}"
    why = breach.why.removeprefix(CROSSED).removeprefix("; ")
    return f"{told} ({why})" if why else told


def _line(breach: Breach) -> str:
    factor = f"{breach.factor_nano / NANO_PER_UNIT:.1f}"
    match breach.rule:
        case "burn_rate":
            return f"{factor} times the even pace of {_amount(breach)} ({breach.speed})"
        case "forecast":
            return f"the line of its forecast for {_amount(breach)}"
        case "anomaly":
            return f"what is usual at this time of day, by {factor} robust deviations"
        case "idle":
            return "how much may be held idle without a break"
        case _:
            return f"{breach.threshold_ppm / _PPM_OF_PERCENT:g}% of {_amount(breach)}"


def link_of(template: str, breach: Breach) -> str:
    """Where to look: {budget}, {breach}, {from_ms} and {to_ms} are filled in; empty without a template."""
    values = {
        "{budget}": quote(breach.budget_id, safe=""),
        "{breach}": breach.id,
        "{from_ms}": str(breach.period_start_ns // 1_000_000),
        "{to_ms}": str(breach.at_ns // 1_000_000),
    }
    for name, value in values.items():
        template = template.replace(name, value)
    return template


def _amount(breach: Breach) -> str:
    if breach.amount_nano is not None:
        return f"{format_nano(breach.amount_nano, MONEY_DIGITS)} {breach.currency}"
    return f"{(breach.amount_gpu_ns or 0) / HOUR_NS:g} GPU-hours"


def _spent(breach: Breach) -> str:
    if breach.spent_nano is not None:
        return f"{format_nano(breach.spent_nano, MONEY_DIGITS)} {breach.currency}"
    return f"{(breach.spent_gpu_ns or 0) / HOUR_NS:.2f} GPU-hours"


def _day(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%MZ")
