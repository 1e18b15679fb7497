"""What other prices, team rules or policies would have made of the past: a table, and why it differs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gpuledger.attribution.charges import MONEY_COLUMNS, TIME_COLUMNS
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import NS_PER_S
from gpuledger.replay.configurations import REPLAYED
from gpuledger.replay.partition import state_path
from gpuledger.replay.request import Request
from gpuledger.replay.state import State
from gpuledger.sink.tables import NS_PER_MS, Arrival, charge_rows
from gpuledger.warehouse import Warehouse

TABLE = "charges_what_if"
SETS_AT_A_TIME = 2_000
_NAME = re.compile(rf"{TABLE}(_[a-z0-9_]{{1,40}})?", re.ASCII)
_RECORDED = """
SELECT team, currency, sum(ifNull(total, 0)), sum(total_ns)
FROM charges
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
  AND cluster != '-' AND (empty({clusters:Array(String)}) OR cluster IN {clusters:Array(String)})
GROUP BY team, currency
"""

Key = tuple[str, str]
"""Team and currency."""


@dataclass(slots=True)
class Amount:
    """Money in nano and GPU time in ns."""

    nano: int = 0
    gpu_ns: int = 0


Amounts = dict[Key, Amount]


@dataclass(frozen=True, slots=True)
class Line:
    """What one team was charged, and why it would be charged otherwise: nano by cause, in their order."""

    team: str
    currency: str
    recorded: Amount
    causes: dict[str, int]
    what_if: Amount


def steps_of(request: Request) -> list[tuple[str, str]]:
    """(cause, side) of each step from what is recorded to what would be."""
    causes = ["late data"]
    causes += ["price"] if request.prices is not None else []
    causes += ["team rule"] if request.teams is not None else []
    causes += ["policy"] if request.policy else []
    names = ["late", *(cause.split()[0] for cause in causes[1:])]
    names[-1] = REPLAYED
    return list(zip(causes, names, strict=True))


def explain(request: Request, partitions: int, directory: Path, recorded: Amounts) -> list[Line]:
    """A line for each team, the largest difference first."""
    steps = [(cause, _of_side(request, partitions, directory, side)) for cause, side in steps_of(request)]
    keys = {key for amounts in (recorded, *(found for _, found in steps)) for key in amounts}
    lines = []
    for key in keys:
        before = recorded.get(key, Amount())
        causes, current = {}, before
        for cause, amounts in steps:
            after = amounts.get(key, Amount())
            causes[cause] = after.nano - current.nano
            current = after
        lines.append(Line(*key, before, causes, current))
    return sorted(lines, key=lambda one: (-abs(one.what_if.nano - one.recorded.nano), one.team, one.currency))


def recorded_amounts(warehouse: Warehouse, request: Request) -> Amounts:
    """What the ledger says of the range. Raises WarehouseUnavailable, WarehouseError."""
    rows = warehouse.rows(
        _RECORDED,
        {
            "from": request.from_ns // NS_PER_S,
            "until": request.to_ns // NS_PER_S,
            "clusters": sorted(request.clusters),
        },
    )
    return {(team, currency): Amount(int(total * NANO_PER_UNIT), ns) for team, currency, total, ns in rows}


def amounts_of(sets: Iterable[ChargeSet]) -> Amounts:
    """The sums of charge sets."""
    found: Amounts = defaultdict(Amount)
    for one in sets:
        money = sum(getattr(one, name) for name in MONEY_COLUMNS)
        time = sum(getattr(one, name) for name in TIME_COLUMNS)
        columns = (one.team, one.currency, money, time)
        for team, currency, nano, ns in zip(*(column.tolist() for column in columns), strict=True):
            amount = found[one.texts[team], one.texts[currency]]
            amount.nano += nano
            amount.gpu_ns += ns
    return dict(found)


def write_table(
    warehouse: Warehouse, table: str, partitions: int, directory: Path, request: Request, now_ns: int
) -> int:
    """Write the rows into a table of their own, in place of what it held; returns how many there are.

    It has the columns of charge_rows. Raises ConfigError for a name that is none of such a table.
    """
    if not _NAME.fullmatch(table):
        raise ConfigError(f"a table of this kind is named {TABLE} or {TABLE}_NAME, not {table!r}", "--table")
    warehouse.command(f"DROP TABLE IF EXISTS {table}")
    warehouse.command(f"CREATE TABLE {table} AS charge_rows")
    rows = 0
    for state in _states(request, partitions, directory):
        filled = (one for one in state.sets(REPLAYED) if len(one.device))
        while some := list(islice(filled, SETS_AT_A_TIME)):
            arrivals = [Arrival(one, CHARGES, one.partition, 0, now_ns // NS_PER_MS) for one in some]
            rows += warehouse.insert_arrow(table, charge_rows(arrivals))
    return rows


def _of_side(request: Request, partitions: int, directory: Path, side: str) -> Amounts:
    found: Amounts = defaultdict(Amount)
    for state in _states(request, partitions, directory):
        for key, amount in amounts_of(state.sets(side)).items():
            found[key].nano += amount.nano
            found[key].gpu_ns += amount.gpu_ns
    return dict(found)


def _states(request: Request, partitions: int, directory: Path) -> Iterator[State]:
    for partition in range(partitions):
        state = State(state_path(directory, partition), request.fingerprint)
        try:
            yield state
        finally:
            state.close()


def differing(lines: Sequence[Line]) -> list[Line]:
    """Those that any cause moved."""
    return [line for line in lines if any(line.causes.values())]
