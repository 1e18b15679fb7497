"""Spending as a table that a team lead reads, and as JSON that a script reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpuledger.spend.query import CATEGORIES, DIMENSIONS, Question, Spending
from gpuledger.spend.span import Span
from gpuledger.spend.words import change, duration, gpu_hours, money, percent, sparkline, time_of
from gpuledger.tables import fitted

COLUMNS = (
    "GPU-h", "used", "effective", "held idle", "unallocated", "unobserved", "total", "share", "before",
    "trend",
)  # fmt: skip
DROPPABLE = ("trend", "unobserved", "effective", "before", "GPU-h", "unallocated", "share")
"""In the order in which a narrow terminal goes without them."""
WHO_WIDTH = 16  # characters; longer names are folded


def shown(question: Question, found: Sequence[Spending], most: int, width: int) -> Group:
    """One table for each currency, at most ``most`` rows each, as wide as ``width`` allows; then what is
    wrong with the amounts."""
    parts: list[Any] = [_title(question)]
    for currency in dict.fromkeys(one.currency for one in found):
        mine = [one for one in found if one.currency == currency]
        parts.append(fitted(width, partial(_table, question, currency, mine, most), DROPPABLE))
    if not found:
        parts.append(Text("The ledger has nothing of this time.", style="yellow"))
    return Group(*parts, *_remarks(question, found))


def _title(question: Question) -> Text:
    span = question.span
    chosen = [f"{name} {value}" for name, value in (("team", question.team), ("cluster", question.cluster))
              if value]  # fmt: skip
    of = f" of {', '.join(chosen)}" if chosen else ""
    title = Text(f"Spend{of} by {question.by}", style="bold")
    return title.append(
        f"  {time_of(span.start_s)} to {time_of(span.until_s)} UTC, {duration(span.length_s)}",
        style="not bold",
    )


def _table(
    question: Question, currency: str, found: Sequence[Spending], most: int, without: Collection[str]
) -> Table:
    everything = _sum(found)
    span = question.span
    shown_rows = [(_who(question, one), _cells(span, one, everything), "") for one in found[:most]]
    if len(found) > most:
        others = _cells(span, _sum(found[most:]), everything)
        shown_rows.append((f"{len(found) - most} others", others, "dim"))
    total = _cells(span, everything, everything)
    table = Table(show_footer=True, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column(question.by, footer="total", overflow="fold", min_width=WHO_WIDTH)
    columns = [name for name in COLUMNS if name not in without]
    for name in columns:
        head = f"total {currency or '(no price)'}" if name == "total" else name
        table.add_column(
            head, justify="left" if name == "trend" else "right", footer=total[name], no_wrap=True
        )
    for who, cells, style in shown_rows:
        table.add_row(who, *(cells[name] for name in columns), style=style)
    return table


def _who(question: Question, one: Spending) -> str:
    """``prod/ml/train-0``; ``prod (no pod)`` for GPUs that nobody held and for processes outside of pods."""
    named = "/".join(value for value in one.key if value)
    return named if one.key[-1] else f"{named} (no {question.by})".strip()


def _cells(span: Span, one: Spending, everything: Spending) -> dict[str, str]:
    share = (one.ns if everything.nano["total"] is None else one.nano)["total"]
    whole = (everything.ns if everything.nano["total"] is None else everything.nano)["total"]
    rates = [nano / bucket.length_s for nano, bucket in zip(one.trend_nano, span.buckets, strict=True)]
    return {
        "GPU-h": gpu_hours(one.ns["total"]) + ("!" if one.unpriced_ns else ""),
        "used": money(one.nano["used"]),
        "effective": _effective(one),
        "held idle": money(one.nano["held_idle"]),
        "unallocated": money(one.nano["unallocated"]),
        "unobserved": money(one.nano["unobserved"]),
        "total": money(one.nano["total"]),
        "share": percent(share, whole),
        "before": change(one.nano["total"], one.before_nano),
        "trend": sparkline(rates),
    }


def _effective(one: Spending) -> str:
    """With a sign where the silicon speaks of a part of the used time only."""
    if not one.known_ns:
        return "–"
    return ("≥ " if one.known_ns < one.ns["used"] else "") + money(one.nano["effectively_used"])


def _remarks(question: Question, found: Sequence[Spending]) -> Iterable[Text]:
    unpriced = sum(one.unpriced_ns for one in found)
    if unpriced:
        yield Text(
            f"NO PRICE for {gpu_hours(unpriced)} GPU-hours (marked !): they are not in the amounts. "
            "`gpuledger prices explain` says what applies to a device.",
            style="bold red",
        )
    if any(one.provisional_ns for one in found):
        hours = gpu_hours(sum(one.provisional_ns for one in found))
        yield Text(f"{hours} GPU-hours are at the last known spot price; they are restated.", style="yellow")
    if any(0 < one.known_ns < one.ns["used"] for one in found):
        yield Text("≥: how well some of the used time was used is not known.", style="dim")
    if found:
        text = f"before: against the {duration(question.span.length_s)} before; trend: spend a"
        yield Text(f"{text} second, of {duration(question.span.bucket_s)} each.", style="dim")


def as_json(question: Question, found: Sequence[Spending]) -> dict[str, Any]:
    """Money in nano-units of the currency (null: no price), GPU time in ns, instants in s since the epoch."""
    return {
        "by": question.by,
        "start_s": question.span.start_s,
        "until_s": question.span.until_s,
        "team": question.team or None,
        "cluster": question.cluster or None,
        "buckets_start_s": [bucket.start_s for bucket in question.span.buckets],
        "rows": [_row(question, one) for one in found],
        "totals": [
            _row(question, _sum(mine))
            for currency in dict.fromkeys(one.currency for one in found)
            for mine in [[one for one in found if one.currency == currency]]
        ],
    }


def _row(question: Question, one: Spending) -> dict[str, Any]:
    return {
        **dict(zip(DIMENSIONS[question.by], one.key, strict=False)),
        "currency": one.currency or None,
        **{f"{name}_nano": one.nano[name] for name in (*CATEGORIES, "total", "effectively_used")},
        **{f"{name}_ns": one.ns[name] for name in (*CATEGORIES, "total", "effectively_used")},
        "effectively_used_of_ns": one.known_ns,
        "unpriced_ns": one.unpriced_ns,
        "provisional_ns": one.provisional_ns,
        "before_total_nano": one.before_nano,
        "trend_nano": one.trend_nano,
    }


def _sum(found: Sequence[Spending]) -> Spending:
    whole = Spending((), found[0].currency, trend_nano=[0] * len(found[0].trend_nano))
    for one in found:
        whole.add(one)
    return whole
