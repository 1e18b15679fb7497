"""What a document changes against the last published one: by entry and by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gpuledger.contract.money import format_nano
from gpuledger.contract.records import (
    Budget,
    BudgetRule,
    BudgetsVersion,
    CurrencyRate,
    PolicyRule,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing.check import day
from gpuledger.pricing.currencies import FOREVER_NS
from gpuledger.pricing.yaml_documents import Version


@dataclass(frozen=True, slots=True)
class Line:
    """One change: ``+`` new, ``-`` gone, ``~`` another; ``what`` of it, in words."""

    sign: str
    id: str
    what: str


def diff(old: Version | None, new: Version) -> list[Line]:
    """Every change, in the order of the new document, what is gone last. Both must be of one kind."""
    if isinstance(new, PriceBookVersion):
        book = old if isinstance(old, PriceBookVersion) else None
        return [
            *_setting("currency", book.currency if book else new.currency, new.currency),
            *_entries(_series(book.entries if book else ()), _series(new.entries)),
            *_entries(
                {_rate_name(rate): [rate] for rate in (book.rates if book else ())},
                {_rate_name(rate): [rate] for rate in new.rates},
            ),
        ]
    if isinstance(new, BudgetsVersion):
        budgets = old.budgets if isinstance(old, BudgetsVersion) else ()
        return list(_entries(_told_budgets(budgets), _told_budgets(new.budgets)))
    teams = old if isinstance(old, TeamMapVersion) else None
    return [
        *_setting("default_team", teams.default_team if teams else "", new.default_team),
        *_entries(_by_id(teams.rules if teams else ()), _by_id(new.rules)),
        *_order([rule.id for rule in teams.rules] if teams else [], [rule.id for rule in new.rules]),
        *_entries(_by_id(teams.policies if teams else ()), _by_id(new.policies)),
    ]


def _setting(name: str, was: str, is_now: str) -> Iterator[Line]:
    if was != is_now:
        yield Line("~", name, f"{was or '(none)'} -> {is_now or '(none)'}")


def _series(entries: Iterable[PriceEntry]) -> dict[str, list[Any]]:
    """The intervals of a spot series are one thing."""
    found: dict[str, list[Any]] = {}
    for entry in entries:
        found.setdefault(entry.id, []).append(entry)
    return found


def _by_id(rules: Sequence[TeamRule | PolicyRule]) -> dict[str, list[Any]]:
    return {rule.id: [rule] for rule in rules}


def _told_budgets(budgets: Iterable[Budget]) -> dict[str, list[Any]]:
    """With thresholds and rules in words, which compare, where arrays do not."""
    return {budget.id: [_BudgetInWords.of(budget)] for budget in budgets}


@dataclass(frozen=True)
class _BudgetInWords:
    id: str
    period: str
    name: str
    scope: str
    rolling: str
    fixed_from_ns: int | None
    fixed_to_ns: int | None
    time_zone: str
    amount_nano: int | None
    currency: str
    gpu_hours: str
    thresholds: str
    counts: str
    rules: str
    effective_from_ns: int
    effective_to_ns: int | None

    @staticmethod
    def of(budget: Budget) -> _BudgetInWords:
        return _BudgetInWords(
            id=budget.id,
            period=budget.period,
            name=budget.name,
            scope=_pairs(budget.scope) or "everything",
            rolling="" if budget.rolling_ns is None else f"{budget.rolling_ns // HOUR_NS}h",
            fixed_from_ns=budget.fixed_from_ns,
            fixed_to_ns=budget.fixed_to_ns,
            time_zone=budget.time_zone,
            amount_nano=budget.amount_nano,
            currency=budget.currency,
            gpu_hours="" if budget.amount_gpu_ns is None else f"{budget.amount_gpu_ns / HOUR_NS:g}",
            thresholds=" ".join(f"{ppm / 10_000:g}%" for ppm in budget.thresholds_ppm.tolist()),
            counts=" ".join(budget.counts),
            rules="; ".join(map(_rule_text, budget.rules)),
            effective_from_ns=budget.effective_from_ns,
            effective_to_ns=budget.effective_to_ns,
        )


def _rule_text(rule: BudgetRule) -> str:
    return f"{rule.kind} {_pairs(rule.parameters)}"


def _pairs(items: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(items.items()))


def _rate_name(rate: CurrencyRate) -> str:
    return f"{rate.from_currency} to {rate.to_currency} from {_instant(rate.effective_from_ns)}"


def _entries(old: dict[str, list[Any]], new: dict[str, list[Any]]) -> Iterator[Line]:
    for name, now in new.items():
        was = old.get(name)
        if was is None:
            yield Line("+", name, _told(now))
        elif was != now:
            yield Line("~", name, _changed(was, now))
    for name, was in old.items():
        if name not in new:
            yield Line("-", name, _told(was))


def _told(items: list[Any]) -> str:
    """What an entry says, without what is empty; of a series its intervals."""
    first = items[0]
    texts = [
        f"{_word(field.name)} {_value(field.name, value)}"
        for field in fields(first)
        if field.name not in ("id", "source", "details", "list_price_nano_per_hour")
        and (value := getattr(first, field.name)) != field.default
        and value not in ({}, "", 0, None)
    ]
    return ", ".join(texts) + (f", and {len(items) - 1} later intervals" if len(items) > 1 else "")


def _changed(was: list[Any], now: list[Any]) -> str:
    if len(was) > 1 or len(now) > 1:
        same = len([item for item in now if item in was])
        return f"{len(now) - same} intervals new, {len([item for item in was if item not in now])} gone"
    texts = []
    for field in fields(now[0]):
        before, after = getattr(was[0], field.name), getattr(now[0], field.name)
        if before != after:
            texts.append(f"{_word(field.name)} {_value(field.name, before)} -> {_value(field.name, after)}")
    return ", ".join(texts)


def _order(old: list[str], new: list[str]) -> Iterator[Line]:
    """Rules that stand in another order, which decides among equal priorities."""
    kept_old, kept_new = ([name for name in names if name in old and name in new] for names in (old, new))
    if kept_old != kept_new:
        yield Line("~", "(order of the rules)", f"{', '.join(kept_old)} -> {', '.join(kept_new)}")


def _word(name: str) -> str:
    for unit in ("_nano_per_hour", "_nano", "_ppb", "_ns"):
        name = name.removesuffix(unit)
    return name


def _value(name: str, value: Any) -> str:
    if name.endswith(("_nano_per_hour", "_nano", "_ppb")) and isinstance(value, int):
        text = format_nano(value)
        return text.rstrip("0").rstrip(".")
    if name.endswith("_ns"):
        return _instant(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    return str(value) or "(any)"


def _instant(value: int | None) -> str:
    if value is None or value >= FOREVER_NS:
        return "further notice"
    return day(value) if value else "the beginning"
