"""What was spent in a span by whom, with its trend and what it was in the time before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.rows import Flag
from gpuledger.spend.ledger import source, stretches
from gpuledger.spend.span import Span
from gpuledger.warehouse import Warehouse

DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "team": ("team",),
    "cost-centre": ("cost_centre",),
    "namespace": ("cluster", "namespace"),  # the same name in two clusters is not the same namespace
    "workload": ("cluster", "namespace", "workload"),
    "pod": ("cluster", "namespace", "pod"),
    "model": ("gpu_model",),
    "cluster": ("cluster",),
}
"""What ``--by`` takes, and the columns that it groups by."""

CATEGORIES = ("used", "held_idle", "unallocated", "unobserved")
_MONEY = (*CATEGORIES, "total", "effectively_used")
_AMOUNTS = (*_MONEY, *(f"{name}_ns" for name in _MONEY), "unpriced_ns")
_SUMS = ",\n".join(f"    sum({name}) AS sum_{name}" for name in _AMOUNTS)
_PROVISIONAL = f"    sumIf(total_ns, bitAnd(flags, {int(Flag.PRICE_PROVISIONAL)}) != 0) AS provisional_ns"
_KNOWN = "    sumIf(used_ns, effectively_used_ns IS NOT NULL) AS known_ns"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: by which of DIMENSIONS, of which team and cluster (empty: all), over which span."""

    by: str
    span: Span
    team: str = ""
    cluster: str = ""


@dataclass(slots=True)
class Spending:
    """What one of those who spend had in a span.

    Money in nano of ``currency``, None where nothing of it has a price; GPU time in ns. ``known_ns`` is the
    part of used time of which the silicon says how well it was used, ``provisional_ns`` what is at the last
    known spot price, ``trend_nano`` the money of each bucket, ``before_nano`` the total of the time before.
    """

    key: tuple[str, ...]
    currency: str = ""
    nano: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(_MONEY))
    ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MONEY, 0))
    unpriced_ns: int = 0
    provisional_ns: int = 0
    known_ns: int = 0
    trend_nano: list[int] = field(default_factory=list)
    before_nano: int | None = None

    @property
    def total_nano(self) -> int:
        """Its money; 0 where nothing has a price."""
        return self.nano["total"] or 0

    def add(self, other: Spending) -> None:
        """Take the amounts of another in as well."""
        for name in _MONEY:
            self.nano[name] = _plus(self.nano[name], other.nano[name])
            self.ns[name] += other.ns[name]
        self.unpriced_ns += other.unpriced_ns
        self.provisional_ns += other.provisional_ns
        self.known_ns += other.known_ns
        self.trend_nano = [a + b for a, b in zip(self.trend_nano, other.trend_nano, strict=True)]
        self.before_nano = _plus(self.before_nano, other.before_nano)


def ask(warehouse: Warehouse, question: Question, now_s: int) -> list[Spending]:
    """Everybody who had GPU time or money in the span, most first; currencies apart. Who had something only
    before is not named. Raises as Warehouse does."""
    sql, parameters = _statement(question, now_s)
    span, width = question.span, len(DIMENSIONS[question.by])
    first, buckets = span.start_s // span.bucket_s, len(span.buckets)
    found: dict[tuple[tuple[str, ...], str], Spending] = {}
    for row in warehouse.rows(sql, parameters):
        key, currency, (is_before, bucket) = tuple(row[:width]), row[width], row[width + 1 : width + 3]
        part = _spending(key, currency, row[width + 3 :], buckets)
        if is_before:
            part = Spending(key, currency, trend_nano=[0] * buckets, before_nano=part.nano["total"])
        else:
            part.trend_nano[bucket - first] = part.total_nano
        known = found.setdefault((key, currency), Spending(key, currency, trend_nano=[0] * buckets))
        known.add(part)
    present = (one for one in _with_unpriced(found) if one.ns["total"] or one.nano["total"] is not None)
    return sorted(present, key=lambda one: (one.currency, -one.total_nano, -one.ns["total"], one.key))


def _statement(question: Question, now_s: int) -> tuple[str, dict[str, Any]]:
    span = question.span
    keys = DIMENSIONS[question.by]
    parts = [
        (stretch, {"is_before": str(int(before))})
        for before, one in ((False, span), (True, span.before))
        for stretch in stretches(one, now_s, fine=span.is_fine)
    ]
    rows, parameters = source(parts, {*keys, "team", "cluster", "currency", "flags", *_AMOUNTS})
    grouped = f"{', '.join(keys)}, currency, is_before, bucket"
    sql = (
        f"SELECT {', '.join(keys)}, currency, is_before,\n"
        "    if(is_before = 1, 0, intDiv(greatest(at_s, {start:UInt32}), {width:UInt32})) AS bucket,\n"
        f"{_SUMS},\n{_PROVISIONAL},\n{_KNOWN}\nFROM {rows}\n"
        "WHERE ({team:String} = '' OR team = {team:String})\n"
        "  AND ({cluster:String} = '' OR cluster = {cluster:String})\n"
        f"GROUP BY {grouped}"
    )
    return sql, parameters | {
        "start": span.start_s, "width": span.bucket_s, "team": question.team, "cluster": question.cluster,
    }  # fmt: skip


def _spending(key: tuple[str, ...], currency: str, row: Any, buckets: int) -> Spending:
    values = dict(zip((*_AMOUNTS, "provisional_ns", "known_ns"), row, strict=True))
    return Spending(
        key,
        currency,
        {name: _nano(values[name]) for name in _MONEY},
        {name: int(values[f"{name}_ns"] or 0) for name in _MONEY},
        int(values["unpriced_ns"]),
        int(values["provisional_ns"]),
        int(values["known_ns"]),
        [0] * buckets,
    )


def _with_unpriced(found: Mapping[tuple[tuple[str, ...], str], Spending]) -> list[Spending]:
    """GPU time without a currency stands with the money of the same key, where that has one."""
    merged = [one for (_, currency), one in found.items() if currency]
    of_key: dict[tuple[str, ...], Spending] = {}
    for one in sorted(merged, key=lambda one: (-one.total_nano, one.currency)):
        of_key.setdefault(one.key, one)
    for (key, currency), one in found.items():
        if currency:
            continue
        if key in of_key:
            of_key[key].add(one)
        else:
            merged.append(one)
    return merged


def _nano(amount: Decimal | None) -> int | None:
    return None if amount is None else nano_from_decimal(amount)


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
