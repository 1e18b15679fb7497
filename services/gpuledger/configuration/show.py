"""Documents, what they change, and to what effect: for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from gpuledger.configuration.diff import Line
from gpuledger.configuration.effect import Effect
from gpuledger.configuration.plan import Applied
from gpuledger.contract.money import format_nano
from gpuledger.contract.records import (
    Budget,
    BudgetsVersion,
    Generation,
    PriceBookVersion,
    PriceEntry,
    TeamRule,
)
from gpuledger.contract.windows import DAY_NS, HOUR_NS
from gpuledger.pricing import MATCH_FIELDS
from gpuledger.pricing.check import day
from gpuledger.pricing.notices import notices
from gpuledger.pricing.yaml_documents import Version

PIPED_WIDTH = 200  # columns; whole lines for whoever reads them
MAX_LINES = 40  # of a diff; more is a document that is another one
PPM_OF_PERCENT = 10_000
KEPT_DAYS = 8  # GPULEDGER_PROCESSOR_OLDEST_DAYS unless it is set
MONEY_DIGITS = 2  # of an estimate
SIGN_STYLE = {"+": "green", "-": "red", "~": "yellow"}


def console() -> Console:
    """Where tables go."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=PIPED_WIDTH, highlight=False)


def summary(document: Version) -> dict[str, Any]:
    """What a document holds, for scripts."""
    if isinstance(document, PriceBookVersion):
        prices = [_price_line(entry) for entry in document.entries]
        return {
            "kind": "prices",
            "currency": document.currency,
            "prices": prices,
            "notices": notices(document),
        }
    if isinstance(document, BudgetsVersion):
        return {"kind": "budgets", "budgets": [_budget_line(budget) for budget in document.budgets]}
    rules = [{"id": rule.id, "team": rule.team, "from_label": rule.label_key} for rule in document.rules]
    return {"kind": "teams", "default_team": document.default_team, "rules": rules}


def _price_line(entry: PriceEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "per": entry.per,
        "unit_price_per_hour": format_nano(entry.unit_price_nano_per_hour),
        "currency": entry.currency,
        "match": {name: getattr(entry, name) for name in MATCH_FIELDS if getattr(entry, name)},
    }


def print_document(out: Console, document: Version) -> None:
    """What a document holds, and what should be known about it."""
    if isinstance(document, PriceBookVersion):
        out.print(_prices(document))
        for notice in notices(document):
            out.print(f"[bold yellow]note:[/] {notice}")
        return
    if isinstance(document, BudgetsVersion):
        out.print(_budgets(document))
        return
    table = Table("id", "team", "cost centre", "priority", title="Teams")
    for rule in document.rules:
        table.add_row(rule.id, _team_text(rule), rule.cost_centre, str(rule.priority))
    rest = document.default_team or ("the namespace" if document.rules else "label team, else the namespace")
    table.add_row("(no rule)", rest, "", "")
    out.print(table)


def _prices(document: PriceBookVersion) -> Table:
    table = Table("id", "per", "per hour", "applies to", "from", "to", title=f"Prices in {document.currency}")
    for entry in document.entries:
        price = f"{format_nano(entry.unit_price_nano_per_hour, 4)} {entry.currency}"
        since = day(entry.effective_from_ns) if entry.effective_from_ns else "the beginning"
        until = "further notice" if entry.effective_to_ns is None else day(entry.effective_to_ns)
        table.add_row(entry.id, entry.per, price, _match_text(entry), since, until)
    return table


def _budgets(document: BudgetsVersion) -> Table:
    table = Table("id", "for", "period", "amount", "thresholds", "counts", "rules", title="Budgets")
    for budget in document.budgets:
        scope = " ".join(f"{name}={value}" for name, value in budget.scope.items()) or "everything"
        thresholds = " ".join(f"{ppm / PPM_OF_PERCENT:g}%" for ppm in budget.thresholds_ppm.tolist())
        rules = " ".join(rule.kind for rule in budget.rules)
        counts = " ".join(budget.counts)
        period = f"{budget.period} ({budget.time_zone})"
        table.add_row(budget.id, scope, period, amount_text(budget), thresholds, counts, rules)
    return table


def amount_text(budget: Budget) -> str:
    """A budget's amount for people."""
    if budget.amount_nano is not None:
        return f"{format_nano(budget.amount_nano, MONEY_DIGITS)} {budget.currency}"
    return f"{(budget.amount_gpu_ns or 0) / HOUR_NS:g} GPU-hours"


def _budget_line(budget: Budget) -> dict[str, Any]:
    return {
        "id": budget.id,
        "scope": dict(budget.scope),
        "period": budget.period,
        "time_zone": budget.time_zone,
        "amount": None if budget.amount_nano is None else format_nano(budget.amount_nano),
        "currency": budget.currency,
        "amount_gpu_ns": budget.amount_gpu_ns,
        "thresholds_ppm": budget.thresholds_ppm.tolist(),
        "counts": list(budget.counts),
        "rules": [rule.kind for rule in budget.rules],
    }


def _match_text(entry: PriceEntry) -> str:
    texts = [f"{name}={getattr(entry, name)}" for name in MATCH_FIELDS if getattr(entry, name)]
    return " ".join(texts) or "everything"


def _team_text(rule: TeamRule) -> str:
    return rule.team or f"label {rule.label_key}"


def sentence(one: Applied, published: bool) -> str:
    """What became of a document, or would."""
    version = one.version
    if one.unchanged:
        return f"{one.kind}: unchanged, version {version.version} stays."
    since = f"from {day(version.active_from_ns)}" if version.active_from_ns else "from the beginning"
    return f"{one.kind}: version {version.version} {'holds' if published else 'would hold'} {since}."


def print_change(
    out: Console, one: Applied, lines: Sequence[Line], effect: Effect, asked: bool, restates: bool
) -> None:
    """What a version changes, and what of the past. ``asked``: whether the ledger was; ``restates``: whether
    the past is to follow."""
    out.print(sentence(one, published=False), markup=False)
    for line in lines[:MAX_LINES]:
        out.print(f"  {line.sign} {line.id}: {line.what}", style=SIGN_STYLE[line.sign], markup=False)
    if len(lines) > MAX_LINES:
        out.print(f"  and {len(lines) - MAX_LINES} more changes")
    if not effect.ranges:
        out.print("  Nothing of the past would be charged otherwise.")
        return
    for one_range in effect.ranges:
        where = f"cluster {', '.join(one_range.clusters)}" if one_range.clusters else "every cluster"
        since = day(one_range.from_ns) if one_range.from_ns else "the beginning"
        out.print(f"  The past from {since} to {day(one_range.to_ns)} would change in {where}.", markup=False)
    if not asked:
        out.print("  By how much is not known: no warehouse was given (--url).")
    else:
        _print_effect(out, effect)
    if restates:
        out.print(f"  A generation is announced for it (cause {effect.cause}): processors restate it.")
    else:
        out.print("  It stays as it was charged (--no-restate).")


def print_left(out: Console, left: Sequence[Generation]) -> None:
    """What earlier versions owe still: whoever published them was interrupted."""
    for one in left:
        versions = f"prices {one.price_version}, teams {one.team_version}"
        out.print(f"{_span(one)} was left to be restated by an earlier call ({versions}).", markup=False)


def generation_sentence(one: Generation) -> str:
    """What was announced, and what of it nobody restates by himself."""
    said = f"generation {one.number}: {_span(one)} is restated (cause {one.cause})."
    if one.from_ns >= one.announced_ns - KEPT_DAYS * DAY_NS:
        return said
    return (
        f"{said} Processors restate the days that they keep, {KEPT_DAYS} by default; "
        "`gpuledger replay --publish` restates what lies before."
    )


def generation_as_json(one: Generation) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "number": one.number,
        "from_ns": one.from_ns,
        "to_ns": one.to_ns,
        "clusters": list(one.clusters),
        "price_version": one.price_version,
        "team_version": one.team_version,
        "cause": one.cause,
    }


def _span(one: Generation) -> str:
    where = f"cluster {', '.join(one.clusters)}" if one.clusters else "every cluster"
    since = day(one.from_ns) if one.from_ns else "the beginning"
    return f"{since} to {day(one.to_ns)} in {where}"


def _print_effect(out: Console, effect: Effect) -> None:
    out.print(f"  {effect.windows} windows of the last 35 days lie in it. The ledger's hours, about:")
    table = Table("team", "currency", "now", "then", "difference")
    for column in table.columns[2:]:
        column.justify = "right"
    for team, currency in effect.keys:
        before, after = effect.before.get((team, currency), 0), effect.after.get((team, currency), 0)
        table.add_row(team or "(nobody)", currency, _money(before), _money(after), _money(after - before))
    if table.row_count:
        out.print(table)
    else:
        out.print("  no team's money would change.")
    if effect.unpriced_before_ns or effect.unpriced_after_ns:
        out.print(
            f"  [bold red]GPU-hours without a price:[/] {_hours(effect.unpriced_before_ns)} now, "
            f"{_hours(effect.unpriced_after_ns)} then."
        )
    for currency, nano in sorted(effect.uncertain.items()):
        out.print(f"  {_money(nano)} {currency} more may move: labels decide, and the ledger keeps none.")
    if effect.shared_otherwise:
        out.print(
            "  A policy changes too: what it moves between teams is not in this; "
            "`gpuledger replay --what-if --policy` says it."
        )
    if effect.cut:
        out.print("  There are more hours than were looked at: the newest alone are in this.")


def effect_as_json(effect: Effect, asked: bool) -> dict[str, Any]:
    """The same for scripts; ``money`` is null where the ledger was not asked."""
    return {
        "ranges": [
            {"from_ns": one.from_ns, "to_ns": one.to_ns, "clusters": list(one.clusters)}
            for one in effect.ranges
        ],
        "cause": effect.cause if effect.ranges else None,
        "windows": effect.windows if asked else None,
        "money": [
            {
                "team": team,
                "currency": currency,
                "now": format_nano(effect.before.get((team, currency), 0)),
                "then": format_nano(effect.after.get((team, currency), 0)),
            }
            for team, currency in effect.keys
        ]
        if asked
        else None,
        "unpriced_ns": {"now": effect.unpriced_before_ns, "then": effect.unpriced_after_ns},
        "uncertain": {currency: format_nano(nano) for currency, nano in effect.uncertain.items()},
        "cut": effect.cut,
        "shared_otherwise": effect.shared_otherwise,
    }


def _money(nano: int) -> str:
    return format_nano(nano, MONEY_DIGITS)


def _hours(ns: int) -> str:
    return f"{ns / HOUR_NS:.1f}"
