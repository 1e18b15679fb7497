"""A charge set as budgets see it: one line for each consumer that differs in what budgets look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuledger.contract.records import ChargeSet
from gpuledger.contract.revision import Revision

CATEGORIES = ("used", "held_idle", "unallocated", "unobserved")
_TEXTS = ("team", "cost_centre", "namespace", "workload", "gpu_model", "pod", "currency")


class Payer(NamedTuple):
    """What of a charge row decides which budgets it counts for, and what names it in a breach."""

    team: str
    cost_centre: str
    namespace: str
    workload: str
    gpu_model: str
    pod: str
    currency: str


class Driver(NamedTuple):
    """Who it is counted from."""

    namespace: str
    workload: str
    pod: str


Amounts = tuple[int, ...]
"""GPU-ns of each category, then 1e-9 of the currency of each."""
Lines = tuple[tuple[Payer, Amounts], ...]


class Window(NamedTuple):
    """A window of a node."""

    cluster: str
    node: str
    start_ns: int


@dataclass(frozen=True, slots=True)
class WindowCharges:
    """One record of gpu.charges. ``append_ms`` is when the broker took it, ``revision`` as one number."""

    window: Window
    length_ns: int
    revision: int
    price_version: int
    lines: Lines
    offset: int
    append_ms: int


class Replaced(NamedTuple):
    """What the warehouse knows of a window before a record: the greatest revision, and its lines."""

    revision: int
    price_version: int
    lines: Lines


def lines_of(charges: ChargeSet) -> Lines:
    """The lines of a set, in the order of their payers. Money of rows without a price is 0."""
    texts = charges.texts
    amounts = [getattr(charges, f"{name}_ns").tolist() for name in CATEGORIES]
    priced = charges.priced != 0
    amounts += [(getattr(charges, f"{name}_nano") * priced).tolist() for name in CATEGORIES]
    found: dict[tuple[int, ...], list[int]] = {}
    keys = zip(*(getattr(charges, name).tolist() for name in _TEXTS), strict=True)
    for key, row in zip(keys, zip(*amounts, strict=True), strict=True):
        known = found.get(key)
        if known is None:
            found[key] = list(row)
        else:
            for index, amount in enumerate(row):
                known[index] += amount
    return joined((Payer(*(texts[index] for index in key)), row) for key, row in found.items())


def joined(lines: Iterable[tuple[Payer, Sequence[int]]]) -> Lines:
    """Lines in the order of their payers, without those that are nothing."""
    kept = [(payer, tuple(row)) for payer, row in lines if any(row)]
    return tuple(sorted(kept))


def charges_of(charges: ChargeSet, offset: int, append_ms: int) -> WindowCharges:
    """A record of gpu.charges as budgets count it."""
    c = charges
    return WindowCharges(
        Window(c.cluster, c.node, c.window_start_ns),
        c.window_length_ns,
        Revision(c.generation, c.inputs, c.digest, c.core_version).packed,
        c.price_version,
        lines_of(c),
        offset,
        append_ms,
    )
