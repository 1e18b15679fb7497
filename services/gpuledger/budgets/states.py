"""All that a partition has counted, as records for its next owner: as many as needed, none of them large."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuledger.budgets.columns import Texts, columns, drivers_of, rings_of, subtotal_of
from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.counters import Changed, Counters, Restated
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.known import KnownRevisions
from gpuledger.budgets.lines import Window
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.totals import DRIVERS_KEPT, Total
from gpuledger.contract.columns import Longs, longs
from gpuledger.contract.records import BudgetState, BudgetSubtotal

PART_BYTES = 2 << 20  # of a record, estimated: a quarter of what one may have
BUCKET_BYTES, KNOWN_BYTES, COUNTED_BYTES, ROW_BYTES = 20, 18, 20, 60
REVISION_OFFSET = 1 << 63  # a revision has 64 bits, a long 63 and a sign
Node = tuple[str, str]


@dataclass
class _Piece:
    """What goes into one record."""

    totals: list[tuple[str, int]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    restated: list[Window] = field(default_factory=list)
    bytes: int = 0


def states_of(count: PartitionCount, subtotals_offset: int) -> list[BudgetState]:
    """All that a partition has counted, in as many parts as needed."""
    counters = count.counters
    pieces = _pieces(counters)
    states = []
    for part, piece in enumerate(pieces):
        told = subtotal_of(count, Changed(set(piece.totals)), most_drivers=DRIVERS_KEPT)
        _write_buckets(counters, {key for key, _ in piece.totals}, told)
        state = BudgetState(
            part=part,
            parts=len(pieces),
            subtotals_offset=subtotals_offset,
            tail_offset=count.tail_offset,
            tail_start_ms=counters.tail_start_ms,
            subtotal=told,
        )
        _write_nodes(counters, piece, state, with_backfilled=part == 0)
        states.append(state)
    return states


def counters_of(states: Sequence[BudgetState]) -> tuple[Counters, int]:
    """What was counted, and the offset of the next record, from all parts of one version."""
    counters = Counters()
    for state in states:
        _read_subtotal(counters, state.subtotal)
        counters.tail_start_ms = state.tail_start_ms
        _read_nodes(counters, state)
    return counters, states[0].subtotal.version


def newest(states: Iterable[BudgetState]) -> dict[int, list[BudgetState]]:
    """Of each partition the parts of the greatest version that is there whole."""
    found: dict[tuple[int, int], dict[int, BudgetState]] = {}
    for state in states:
        found.setdefault((state.subtotal.partition, state.subtotal.version), {})[state.part] = state
    whole: dict[int, list[BudgetState]] = {}
    for (partition, _), parts in sorted(found.items()):
        if len(parts) >= parts[min(parts)].parts:
            whole[partition] = [parts[number] for number in sorted(parts)]
    return whole


def _pieces(counters: Counters) -> list[_Piece]:
    pieces = [_Piece()]

    def room(size: int) -> _Piece:
        if pieces[-1].bytes and pieces[-1].bytes + size > PART_BYTES:
            pieces.append(_Piece())
        pieces[-1].bytes += size
        return pieces[-1]

    for key, periods in sorted(counters.totals.items()):
        buckets = BUCKET_BYTES * sum(len(ring) for ring in counters.rings.get(key, {}).values())
        for start_ns, total in sorted(periods.items()):
            names = sum(len(text) for driver in total.drivers for text in driver)
            size = ROW_BYTES + len(key) + buckets + names + ROW_BYTES * len(total.drivers)
            room(size).totals.append((key, start_ns))
    for node in sorted(counters.high_water_ns):
        size = ROW_BYTES + len(node[1]) + KNOWN_BYTES * len(counters.known[node])
        room(size).nodes.append(node)
    for window, one in counters.restated.items():
        size = ROW_BYTES + len(window.node) + COUNTED_BYTES * len(one.counted)
        room(size).restated.append(window)
    return pieces


def _write_buckets(counters: Counters, keys: Iterable[str], told: BudgetSubtotal) -> None:
    numbers = {text: number for number, text in enumerate(told.texts)}
    found = []
    for key in sorted(keys):
        for length_ns, ring in sorted(counters.rings.get(key, {}).items()):
            starts, amounts = ring.columns()
            found.append((numbers[key], length_ns, starts, amounts))
    sizes = [starts.size for _, _, starts, _ in found]
    told.bucket_meter = np.repeat(longs([number for number, *_ in found]), sizes)
    told.bucket_length_ns = np.repeat(longs([length_ns for _, length_ns, *_ in found]), sizes)
    told.bucket_start_ns = _joined(starts for _, _, starts, _ in found)
    told.bucket_amount = _joined(amounts for *_, amounts in found)


def _write_nodes(counters: Counters, piece: _Piece, state: BudgetState, with_backfilled: bool) -> None:
    texts = Texts()
    nodes = list(dict.fromkeys([*piece.nodes, *((one.cluster, one.node) for one in piece.restated)]))
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [
        (texts.number(a), texts.number(b), counters.high_water_ns[a, b], counters.known[a, b].length_ns)
        for a, b in nodes
    ]
    state.node_cluster, state.node_name, state.high_water_ns, state.window_length_ns = columns(rows, 4)
    known = [counters.known[node].columns() for node in piece.nodes]
    state.known_node = np.repeat(np.arange(len(known)), [starts.size for starts, _ in known])
    state.known_window_ns = _joined(starts for starts, _ in known)
    state.known_revision = _joined(revisions for _, revisions in known)
    restated, counted = [], []
    for row, window in enumerate(piece.restated):
        one = counters.restated[window]
        node = numbers[window.cluster, window.node]
        restated.append((node, window.start_ns, one.revision - REVISION_OFFSET))
        counted += [(row, texts.number(key), *amounts) for key, amounts in one.counted.items()]
    state.restated_node, state.restated_window_ns, state.restated_revision = columns(restated, 3)
    (
        state.counted_restated,
        state.counted_meter,
        state.counted_nano,
        state.counted_gpu_ns,
        state.counted_unconverted_nano,
    ) = columns(counted, 5)
    reaches = counters.backfilled if with_backfilled else ()
    backfilled = [(texts.number(key), *reach, int(key not in counters.untold)) for key, *reach in reaches]
    (
        state.backfilled_meter,
        state.backfilled_length_ns,
        state.backfilled_from_ns,
        state.backfilled_until_ns,
        state.backfilled_told,
    ) = columns(backfilled, 5)
    state.texts = texts.all()


def _joined(several: Iterable[Longs]) -> Longs:
    return np.concatenate([longs([]), *several])


def _read_nodes(counters: Counters, state: BudgetState) -> None:
    texts = state.texts
    nodes = [
        (texts[cluster], texts[node])
        for cluster, node in zip(state.node_cluster.tolist(), state.node_name.tolist(), strict=True)
    ]
    counters.high_water_ns.update(zip(nodes, state.high_water_ns.tolist(), strict=True))
    for node, length_ns in zip(nodes, state.window_length_ns.tolist(), strict=True):
        if node not in counters.known:  # another part may have its windows
            counters.known[node] = KnownRevisions(length_ns)
    ends = np.searchsorted(state.known_node, np.arange(len(nodes)), side="right").tolist()
    for node, first, end in zip(nodes, [0, *ends], ends, strict=False):
        counters.known[node].put_all(state.known_window_ns[first:end], state.known_revision[first:end])
    _read_restated(counters, state, nodes)
    reaches = tuple(
        Reach(texts[meter], *reach)
        for meter, *reach in zip(
            state.backfilled_meter.tolist(),
            state.backfilled_length_ns.tolist(),
            state.backfilled_from_ns.tolist(),
            state.backfilled_until_ns.tolist(),
            strict=True,
        )
    )
    untold = (state.backfilled_told == 0).tolist()
    counters.backfilled += reaches
    counters.untold |= {reach.key for reach, one in zip(reaches, untold, strict=True) if one}


def _read_restated(counters: Counters, state: BudgetState, nodes: Sequence[Node]) -> None:
    rows = zip(
        state.restated_node.tolist(),
        state.restated_window_ns.tolist(),
        state.restated_revision.tolist(),
        strict=True,
    )
    windows = [
        (Window(nodes[node][0], nodes[node][1], start), Restated(revision + REVISION_OFFSET, {}))
        for node, start, revision in rows
    ]
    counters.restated.update(OrderedDict(windows))
    for row, meter, *amounts in zip(
        state.counted_restated.tolist(),
        state.counted_meter.tolist(),
        state.counted_nano.tolist(),
        state.counted_gpu_ns.tolist(),
        state.counted_unconverted_nano.tolist(),
        strict=True,
    ):
        windows[row][1].counted[state.texts[meter]] = Counted(*amounts)


def _read_subtotal(counters: Counters, told: BudgetSubtotal) -> None:
    counters.newest_end_ns = max(counters.newest_end_ns, told.newest_end_ns)
    totals = []
    rows = zip(
        told.meter.tolist(),
        told.period_start_ns.tolist(),
        told.nano.tolist(),
        told.gpu_ns.tolist(),
        told.unconverted_nano.tolist(),
        told.through_ns.tolist(),
        strict=True,
    )
    for meter, start_ns, nano, gpu_ns, unconverted_nano, through_ns in rows:
        totals.append(Total(nano, gpu_ns, unconverted_nano, through_ns))
        counters.totals.setdefault(told.texts[meter], {})[start_ns] = totals[-1]
    for row, driver, amount in drivers_of(told):
        totals[row].drivers[driver] = amount
    for key, length_ns, starts, amounts in rings_of(told):
        rings = counters.rings.setdefault(key, {})
        rings.setdefault(length_ns, Ring(length_ns)).put_all(starts, amounts)
