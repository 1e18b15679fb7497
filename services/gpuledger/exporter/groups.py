"""Few groups from many: the largest by name, all others together. Sums stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from gpuledger.exporter.question import Parts, Row, added

OTHER = "other"
K = TypeVar("K", bound=Hashable)


def largest(rows: Iterable[Row], key: Callable[[Row], K], size: Callable[[Row], int], limit: int) -> set[K]:
    """Keys of the ``limit`` largest groups; equal ones in the order of their keys."""
    sizes: dict[K, int] = {}
    for row in rows:
        sizes[key(row)] = sizes.get(key(row), 0) + size(row)
    return set(sorted(sizes, key=lambda name: (-sizes[name], repr(name)))[:limit])


def folded(rows: Iterable[Row], key: Callable[[Row], K]) -> Mapping[K, Row]:
    """One row for each key, summed; names that differ within a key are the first row's."""
    found: dict[K, Row] = {}
    for row in rows:
        name = key(row)
        found[name] = _sum(found[name], row) if name in found else row
    return found


def _sum(a: Row, b: Row) -> Row:
    return a._replace(
        money=Parts(*map(added, a.money, b.money)),
        ns=Parts(*map(added, a.ns, b.ns)),
        unpriced_ns=a.unpriced_ns + b.unpriced_ns,
        completeness=_weighted(a, b),
        xid=max(a.xid, b.xid),
        first_ms=min(a.first_ms, b.first_ms),
        end_ms=max(a.end_ms, b.end_ms),
    )


def _weighted(a: Row, b: Row) -> float | None:
    known = [(row.completeness, row.total_ns) for row in (a, b) if row.completeness is not None]
    weight = sum(ns for _, ns in known)
    return sum(share * ns for share, ns in known) / weight if weight else None
