"""What a partition has counted, as it is kept."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.known import KnownRevisions
from gpuledger.budgets.lines import Window
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.totals import Total


@dataclass(slots=True)
class Restated:
    """A window that came out of order: its revision, and what it counts."""

    revision: int
    counted: dict[str, Counted]


@dataclass(slots=True)
class Counters:
    """Everything that a partition has counted, by the meters' keys."""

    totals: dict[str, dict[int, Total]] = field(default_factory=dict)
    rings: dict[str, dict[int, Ring]] = field(default_factory=dict)
    known: dict[tuple[str, str], KnownRevisions] = field(default_factory=dict)
    high_water_ns: dict[tuple[str, str], int] = field(default_factory=dict)
    restated: OrderedDict[Window, Restated] = field(default_factory=OrderedDict)
    newest_end_ns: int = 0
    tail_start_ms: int = 0
    backfilled: tuple[Reach, ...] = ()
    untold: set[str] = field(default_factory=set)  # meters that are backfilled, and not told since


@dataclass(slots=True)
class Changed:
    """The totals and buckets that changed since they were last told."""

    totals: set[tuple[str, int]] = field(default_factory=set)
    buckets: set[tuple[str, int, int]] = field(default_factory=set)
