"""Heads that a generation restates wait for the others of their hour, and are shown in one block.

What waits is in the warehouse, so that any writer shows it: whoever put the last head of an hour, or whoever
comes after one that died. A head waits only where it would replace one of a lesser generation: windows that
are new, and late records of windows that were restated before, are shown at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.records import Generation
from gpuledger.logs import EventLog
from gpuledger.sink.hours import HOUR_S, Key
from gpuledger.warehouse.client import Warehouse

CHECK_EVERY_S = 1.0  # how late a complete hour is shown, where looking is cheap
COST_RATIO = 3  # of the time between two looks to the time that one takes
# An hour of which nothing more came for so long is shown as it is: a window whose records nobody has any more
# is never restated, and must not keep the others back for good. A worker that was killed is back within 15 s.
QUIET_S = 300
LONGEST_MOVE_S = 1.0  # then new charges have their turn; the hours that are left go on at the next look
MAX_HOURS = 2  # at one look: 900,000 heads of 1,250 nodes, which a join holds, and new charges wait for
ONE_BLOCK_ROWS = 1 << 21  # 5,800 nodes for an hour of windows of 10 s; more would be several blocks

log = EventLog("gpuledger.sink")

_PENDING = """
SELECT w.* EXCEPT (shown_generation, shown_revision)
FROM
(
    SELECT w.*, c.generation AS shown_generation, c.revision AS shown_revision
    FROM (SELECT * FROM charge_windows_waiting FINAL WHERE {scope}) AS w
    LEFT JOIN
    (
        SELECT cluster, node, window_start, generation, revision FROM charge_windows FINAL WHERE {scope}
    ) AS c USING (cluster, node, window_start)
) AS w
WHERE w.revision > shown_revision AND ({whole} OR shown_revision = 0 OR shown_generation >= w.generation)
"""
_SCOPE = (
    "window_start >= fromUnixTimestamp({first:UInt32}) AND window_start < fromUnixTimestamp({end:UInt32})"
    " AND toUnixTimestamp(toStartOfHour(window_start)) IN {hours:Array(UInt32)}"
)
_EVERY = "toUnixTimestamp(toStartOfHour(window_start)) IN {whole:Array(UInt32)}"
_LEFT = """
SELECT DISTINCT toUnixTimestamp(toStartOfHour(window_start)) AS hour_s
FROM charge_windows_waiting
ORDER BY hour_s
"""
_GENERATIONS = f"""
SELECT toUnixTimestamp(toStartOfHour(window_start)) AS hour_s, groupUniqArray(generation)
FROM ({_PENDING.format(scope=_SCOPE, whole="1")}) GROUP BY hour_s
"""
_LACKING = f"""
SELECT DISTINCT toUnixTimestamp(toStartOfHour(window_start)) AS hour_s
FROM charge_windows FINAL
WHERE {_SCOPE} AND generation < {{generation:UInt16}} AND node != {{nobody:String}}
    AND window_start >= fromUnixTimestamp64Milli({{from_ms:Int64}})
    AND window_start < fromUnixTimestamp64Milli({{to_ms:Int64}})
    AND (empty({{clusters:Array(String)}}) OR cluster IN {{clusters:Array(String)}})
    AND (cluster, node, window_start) NOT IN
    (
        SELECT cluster, node, window_start FROM charge_windows_waiting FINAL
        WHERE {_SCOPE} AND generation >= {{generation:UInt16}}
    )
"""
_SHOWN = _PENDING.format(scope=_SCOPE, whole=_EVERY)
_KEYS = f"""
SELECT DISTINCT cluster, node, toUnixTimestamp(toStartOfHour(window_start)) AS hour_s FROM ({_SHOWN})
"""
_SHOW = f"""
INSERT INTO charge_windows
{_SHOWN}
SETTINGS async_insert = 0, optimize_on_insert = 0, max_threads = 1, max_insert_threads = 1,
    min_insert_block_size_rows = {ONE_BLOCK_ROWS}, min_insert_block_size_bytes = 0
"""
MS_OF_DATES = (1 << 32) * 1_000  # the last instant of a DateTime


class WaitingHeads:
    """Owned by the writer's thread; raises as Warehouse does, and what ``generation_of`` raises."""

    def __init__(
        self, warehouse: Warehouse, clock: Clock, generation_of: Callable[[int], Generation | None]
    ) -> None:
        self._warehouse = warehouse
        self._clock = clock
        self._generation_of = generation_of
        self._hours: dict[int, int] | None = None  # by start in s: boot clock when the last head came
        self._next_look_ns = 0

    @property
    def any(self) -> bool:
        """Whether some hour waits, as far as this writer knows."""
        return bool(self._hours)

    def put(self, heads: pa.Table, token: str) -> None:
        """Keep heads of generations until their hour may be shown."""
        waiting = self._load()
        self._warehouse.insert_arrow("charge_windows_waiting", heads, f"waiting {token}")
        starts = pc.cast(pc.floor_temporal(heads["window_start"], unit="hour"), pa.timestamp("s", tz="UTC"))
        for hour_s in pc.unique(pc.cast(starts, pa.int64())).to_pylist():
            waiting[hour_s] = self._clock.boot_ns()

    def show(self, mark: Callable[[Iterable[Key]], None]) -> None:
        """Show what may be shown, if it is time to look. ``mark`` is told which hours change, before."""
        waiting = self._load()
        started_ns = self._clock.boot_ns()
        if not waiting or started_ns < self._next_look_ns:
            return
        looked_at = {hour: waiting[hour] for hour in islice(waiting, MAX_HOURS)}
        pending = self._rows(_GENERATIONS, looked_at)
        lacking = self._lacking(pending)
        quiet = {hour for hour in lacking if started_ns - looked_at[hour] > QUIET_S * NS_PER_S}
        if quiet:
            log.warning("hours are shown, not all of whose windows were restated", hours=len(quiet))
        moved_ns = self._clock.boot_ns()
        wait_ns = max(int(CHECK_EVERY_S * NS_PER_S), COST_RATIO * (moved_ns - started_ns))
        for hour in looked_at:
            if hour not in pending:
                del waiting[hour]
            elif hour in lacking - quiet:
                waiting[hour] = waiting.pop(hour)  # the others come first next time
        for hour in sorted((set(pending) - lacking) | quiet):
            self._move([hour], [hour], mark)
            del waiting[hour]
            if self._clock.boot_ns() - moved_ns > LONGEST_MOVE_S * NS_PER_S:
                wait_ns = int(CHECK_EVERY_S * NS_PER_S)
                break
        else:
            if lacking - quiet:
                self._move(lacking - quiet, [], mark)
        self._next_look_ns = self._clock.boot_ns() + wait_ns

    def _move(self, hours: Iterable[int], whole: list[int], mark: Callable[[Iterable[Key]], None]) -> None:
        """Show all that waits of the ``whole`` hours; of others what need not wait."""
        scope = _scope_of(hours) | {"whole": whole}
        keys = [(r[0], r[1], r[2]) for r in self._warehouse.rows(_KEYS, scope)]
        if keys:
            mark(keys)
            self._warehouse.command(_SHOW, scope)

    def _load(self) -> dict[int, int]:
        """What another writer left."""
        if self._hours is None:
            hours = [row[0] for row in self._warehouse.rows(_LEFT)]
            some = (hours[at : at + MAX_HOURS] for at in range(0, len(hours), MAX_HOURS))
            pending = [hour for chunk in some for hour in self._rows(_GENERATIONS, chunk)]
            self._hours = dict.fromkeys(pending, self._clock.boot_ns())
        return self._hours

    def _rows(self, query: str, hours: Iterable[int]) -> dict[int, list[int]]:
        return {row[0]: list(row[1]) for row in self._warehouse.rows(query, _scope_of(hours))}

    def _lacking(self, pending: dict[int, list[int]]) -> set[int]:
        """The hours in which a window of a generation's range is neither restated nor waits."""
        found: set[int] = set()
        for number in sorted({number for numbers in pending.values() for number in numbers}):
            generation = self._generation_of(number)
            if generation is None:
                continue
            hours = [hour for hour, numbers in pending.items() if number in numbers]
            scope = _scope_of(hours) | {
                "generation": number,
                "nobody": NO_NODE.node,
                "from_ms": max(0, generation.from_ns // 1_000_000),
                "to_ms": min(MS_OF_DATES, -(-generation.to_ns // 1_000_000)),
                "clusters": generation.clusters,
            }
            found |= {row[0] for row in self._warehouse.rows(_LACKING, scope)}
        return found


def _scope_of(hours: Iterable[int]) -> dict[str, object]:
    wanted = sorted(hours)
    return {"hours": wanted, "first": wanted[0], "end": wanted[-1] + HOUR_S}
