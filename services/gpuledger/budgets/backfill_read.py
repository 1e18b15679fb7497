"""What the warehouse has of the time before a version of the budgets, as of one moment of arrival.

Hours whose stored sums were taken from the very revisions that had come by then are read as such; so are
those whose windows have expired. Of all others, and where buckets shorter than an hour are filled, the
windows are read, each with the greatest revision that had come. A question is of one hour's windows, or of
the stored sums of a day, of a few hundred nodes: none takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.contribution import Contribution, Counted, contribution
from gpuledger.budgets.lines import CATEGORIES, Driver, Payer, Window, joined
from gpuledger.budgets.replaced import nano_of, replaced
from gpuledger.bus import partition_for_node
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.warehouse import Warehouse

HOURS_AT_ONCE = 24
NODES_AT_ONCE = 200
FINEST_NS = 5 * MINUTE_NS  # buckets are no shorter
NS_PER_MS = 1_000_000
_HOUR_S = HOUR_NS // NS_PER_S
_PAYER = "team, cost_centre, namespace, workload, gpu_model, pod, currency"
_AMOUNTS = ", ".join(
    [f"sum({name}_ns)" for name in CATEGORIES] + [f"sum(ifNull({name}, 0))" for name in CATEGORIES]
)
_NODES = "(cluster, node) IN {nodes:Array(Tuple(String, String))}"
_WITHIN = f"""window_start >= fromUnixTimestamp64Milli({{from_ms:Int64}})
    AND window_start < fromUnixTimestamp64Milli({{until_ms:Int64}}) AND {_NODES}"""
_HOURS = "hour >= fromUnixTimestamp({from_s:UInt32}) AND hour < fromUnixTimestamp({until_s:UInt32})"
_OF_NODES = f"SELECT DISTINCT cluster, node FROM charge_hour_marks WHERE {_HOURS} ORDER BY cluster, node"
# Of every window the greatest revision that had come by then; 0 where none had.
_CAME = f"""
SELECT cluster, node, window_start,
    maxIf(revision, first < fromUnixTimestamp64Milli({{before_ms:Int64}})) AS came,
    argMaxIf(price, revision, first < fromUnixTimestamp64Milli({{before_ms:Int64}})) AS price_version
FROM
(
    SELECT cluster, node, window_start, revision, min(first_received_at) AS first, max(price_version) AS price
    FROM charge_revisions
    WHERE {_WITHIN}
    GROUP BY cluster, node, window_start, revision
)
GROUP BY cluster, node, window_start
"""
# ddl/0005 says what a version is.
_STATES = f"""
SELECT cluster, node, toUnixTimestamp(toStartOfHour(window_start)) AS hour_s,
    toUInt128(countIf(came > 0)) * bitShiftLeft(toUInt128(1), 96) + sum(toUInt128(came)), count()
FROM ({_CAME})
GROUP BY cluster, node, hour_s
"""
_STORED = f"""
SELECT cluster, node, toUnixTimestamp(hour) AS hour_s, version, windows
FROM charge_hours FINAL
WHERE {_HOURS} AND {_NODES}
"""
_OF_STORED = f"""
SELECT cluster, toUnixTimestamp(hour) AS hour_s, {_PAYER}, {_AMOUNTS}
FROM
(
    SELECT cluster, node, hour, version
    FROM charge_hours FINAL
    WHERE {_HOURS} AND {_NODES} AND toUnixTimestamp(hour) IN {{hours:Array(UInt32)}}
) AS h
INNER JOIN (SELECT * FROM charge_hour_rows FINAL WHERE {_HOURS} AND {_NODES}) AS r
    USING (cluster, node, hour, version)
GROUP BY cluster, hour_s, {_PAYER}
"""
_ROWS_THAT_CAME = f"""
(SELECT cluster, node, window_start, came AS revision, price_version FROM ({_CAME}) WHERE came > 0) AS w
INNER JOIN (SELECT * FROM charge_rows FINAL WHERE {_WITHIN}) AS r
    USING (cluster, node, window_start, revision)
"""
_OF_WINDOWS = f"""
SELECT cluster, intDiv(toUnixTimestamp64Milli(window_start), {{step_ms:Int64}}) * {{step_ms:Int64}} AS at_ms,
    {_PAYER}, {_AMOUNTS}
FROM {_ROWS_THAT_CAME}
GROUP BY cluster, at_ms, {_PAYER}
"""
_OF_EACH_WINDOW = f"""
SELECT cluster, node, toUnixTimestamp64Milli(window_start) AS at_ms, price_version, {_PAYER}, {_AMOUNTS}
FROM {_ROWS_THAT_CAME}
WHERE currency IN {{currencies:Array(String)}}
GROUP BY cluster, node, at_ms, price_version, {_PAYER}
"""
Key = tuple[str, str, int]
"""Cluster, node, and start of the hour in s since the Unix epoch."""


class _Stored(NamedTuple):
    version: int
    windows: int


class Reading:
    """One reading for one round. Owned by one thread, as is the connection. Raises as Warehouse does."""

    def __init__(
        self, warehouse: Warehouse, catalog: Catalog, begun: Round, pause: Callable[[], None]
    ) -> None:
        """``pause`` is called between two questions; what it raises ends the reading."""
        self._warehouse = warehouse
        self._catalog = catalog
        self._round = begun
        self._pause = pause
        self._before_ms = begun.before_ms or 0
        self._sheet = Sheet()

    def base(self, partition: int, partitions: int) -> Sheet:
        """What the windows of a partition's nodes counted when the round began."""
        cuts = self._round.reached.cuts
        first_s, end_s = cuts[0] // NS_PER_S // _HOUR_S * _HOUR_S, -(-cuts[-1] // HOUR_NS) * _HOUR_S
        names = self._rows(_OF_NODES, {"from_s": first_s, "until_s": end_s})
        nodes = [
            (cluster, node)
            for cluster, node in names
            if partition_for_node(NodeKey(cluster, node).key, partitions) == partition
        ]
        for low in range(0, len(nodes), NODES_AT_ONCE):
            some = nodes[low : low + NODES_AT_ONCE]
            for hour_s in range(first_s, end_s, HOURS_AT_ONCE * _HOUR_S):
                self._hours(some, range(hour_s, min(end_s, hour_s + HOURS_AT_ONCE * _HOUR_S), _HOUR_S))
        self._put_tail_right()
        return self._sheet

    def _hours(self, nodes: Sequence[tuple[str, str]], hours: range) -> None:
        """A day of some nodes."""
        wanted = [hour_s for hour_s in hours if self._pieces(hour_s)]
        if not wanted:
            return
        first_s, end_s = wanted[0], wanted[-1] + _HOUR_S
        scope = {"nodes": nodes, "from_s": first_s, "until_s": end_s, "before_ms": self._before_ms}
        scope |= _piece(first_s * NS_PER_S, end_s * NS_PER_S)
        stored = self._stored(scope)
        unlike, expired = set(), set()
        states = {(c, n, hour_s): (came, count) for c, n, hour_s, came, count in self._rows(_STATES, scope)}
        for key in states.keys() | stored.keys():
            came, count = states.get(key, (0, 0))
            kept = stored.get(key)
            if kept is not None and count < kept.windows:
                expired.add(key[2])  # what is left of its windows does not say what it had
            elif kept is None or kept.version != came:
                unlike.add(key[2])
        whole = [s for s in wanted if s in expired or (s not in unlike and self._is_coarse(s))]
        rows = list(self._rows(_OF_STORED, scope | {"hours": whole})) if whole else []
        if self._stored(scope) != stored:
            whole, rows = [], []  # one of them was stored anew meanwhile
        foreign: dict[int, set[str]] = {}
        for cluster, hour_s, *rest in rows:
            low_ns, _, _ = self._pieces(hour_s)[0]
            payer, amounts = _payer_of(rest)
            if self._add(cluster, (low_ns, (hour_s + _HOUR_S) * NS_PER_S), payer, amounts, hour_s in expired):
                foreign.setdefault(hour_s, set()).add(payer.currency)
        for hour_s in wanted:
            for low_ns, high_ns, step_ns in self._pieces(hour_s) if hour_s not in whole else ():
                asked = scope | _piece(low_ns, high_ns) | {"step_ms": step_ns // NS_PER_MS}
                for cluster, at_ms, *rest in self._rows(_OF_WINDOWS, asked):
                    at_ns = at_ms * NS_PER_MS
                    span = max(at_ns, low_ns), min(at_ns + step_ns, high_ns)
                    payer, amounts = _payer_of(rest)
                    if self._add(cluster, span, payer, amounts):
                        foreign.setdefault(hour_s, set()).add(payer.currency)
            if hour_s in foreign:
                self._foreign(scope, hour_s, sorted(foreign[hour_s]))

    def _stored(self, scope: Mapping[str, Any]) -> dict[Key, _Stored]:
        rows = self._rows(_STORED, scope)
        return {(c, n, hour_s): _Stored(version, windows) for c, n, hour_s, version, windows in rows}

    def _is_coarse(self, hour_s: int) -> bool:
        """Whether the hour's sums are all that is needed of it."""
        (piece, *more) = self._pieces(hour_s)
        return not more and piece == (hour_s * NS_PER_S, hour_s * NS_PER_S + HOUR_NS, HOUR_NS)

    def _pieces(self, hour_s: int) -> list[tuple[int, int, int]]:
        """The parts of an hour in which some window counts, cut where a reach begins or ends, and the length
        of what is told apart in each, in ns."""
        low_ns = hour_s * NS_PER_S
        cuts = [cut for cut in self._round.reached.cuts if low_ns < cut < low_ns + HOUR_NS]
        found = []
        for start_ns, end_ns in zip([low_ns, *cuts], [*cuts, low_ns + HOUR_NS], strict=True):
            reaches = [one for some in self._round.reached.at(start_ns).values() for one in some]
            if reaches:
                fine = any(0 < one.length_ns < HOUR_NS for one in reaches)
                found.append((start_ns, end_ns, FINEST_NS if fine else HOUR_NS))
        return found

    def _add(
        self,
        cluster: str,
        span: tuple[int, int],
        payer: Payer,
        amounts: tuple[int, ...],
        is_old: bool = False,
    ) -> bool:
        """Count what a payer had in a span (start, end), which no reach ends in; whether some of it must be
        converted window by window. Of old hours the windows are gone: the newest rates are taken for them."""
        start_ns = span[0]
        plan, rates = self._round.plan(self._catalog, start_ns), self._catalog.newest_rates
        found, foreign = Contribution(), False
        for meter in plan.meters_of(cluster, payer):
            if not meter.is_effective(start_ns) or meter.period(start_ns) is None:
                continue
            nano = meter.nano(amounts) if meter.money else 0
            converted: int | None = nano
            if nano and meter.is_foreign(payer.currency):
                foreign = foreign or not is_old
                if not is_old:
                    continue
                converted = rates.convert(nano, payer.currency, meter.budget.currency, start_ns)
            counted = Counted(converted or 0, meter.gpu_ns(amounts), nano if converted is None else 0)
            if any(counted):
                found.counted[meter.key] = counted
                if payer.pod or payer.workload:
                    driver = Driver(payer.namespace, payer.workload, payer.pod)
                    found.drivers[meter.key] = {driver: (counted.nano, counted.gpu_ns)}
        self._round.take(self._sheet, plan, span, found)
        return foreign

    def _foreign(self, scope: Mapping[str, Any], hour_s: int, currencies: Sequence[str]) -> None:
        """Count the money of an hour that is converted at the rates of each window."""
        begun = self._round
        lines: dict[tuple[Window, int], list[tuple[Payer, tuple[int, ...]]]] = {}
        for low_ns, high_ns, _ in self._pieces(hour_s):
            asked = {**scope, **_piece(low_ns, high_ns), "currencies": currencies}
            for cluster, node, at_ms, prices, *rest in self._rows(_OF_EACH_WINDOW, asked):
                window = Window(cluster, node, at_ms * NS_PER_MS)
                lines.setdefault((window, prices), []).append(_payer_of(rest))
        for (window, prices), of_window in lines.items():
            plan, rates = begun.plan(self._catalog, window.start_ns), self._catalog.rates(prices)
            found = contribution(plan, rates, window.cluster, window.start_ns, joined(of_window), True)
            begun.take(self._sheet, plan, (window.start_ns, window.start_ns + NS_PER_S), found)

    def _put_tail_right(self) -> None:
        """The windows that came lately count as they came, not as they were before."""
        tail = self._round.tail
        before = replaced(self._warehouse, {one.window: None for one in tail}, self._before_ms)
        for one in tail:
            end_ns = one.window.start_ns + one.length_ns
            known = before.get(one.window)
            if known is not None:
                self._round.fill(self._catalog, self._sheet, one.window, end_ns, known, -1)
            self._round.fill(self._catalog, self._sheet, one.window, end_ns, one)

    def _rows(self, query: str, parameters: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        self._pause()
        yield from self._warehouse.rows(query, parameters)


def _piece(low_ns: int, high_ns: int) -> dict[str, int]:
    """The windows that start in [low, high)."""
    return {"from_ms": -(-low_ns // NS_PER_MS), "until_ms": -(-high_ns // NS_PER_MS)}


def _payer_of(columns: Sequence[Any]) -> tuple[Payer, tuple[int, ...]]:
    return Payer(*columns[:7]), (*map(int, columns[7:11]), *map(nano_of, columns[11:15]))
