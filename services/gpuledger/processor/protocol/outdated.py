"""Which windows of a node must be computed again, or at last, though no record of theirs came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuledger.contract.windows import HOUR_NS
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.packed import PackedRows
from gpuledger.processor.protocol.values import WindowRow

if TYPE_CHECKING:
    from gpuledger.processor.protocol.node import NodeState


def outlived(node: NodeState) -> Iterator[int]:
    """The closed windows that were charged in another belief of the node's life than the present one."""
    for start, row in node.rows.items(lambda packed: _may_be_outlived(node, packed)):
        if _is_outlived(node, start, row):
            yield start


def outdated(node: NodeState, generations: Generations) -> Iterator[int]:
    """The closed windows whose recorded generation or life is not the present one."""
    cluster = node.key.cluster

    def wanted(packed: PackedRows) -> bool:
        greatest = generations.greatest(cluster, packed.starts[0], packed.starts[-1] + node.length_ns)
        return packed.least_generation < greatest or _may_be_outlived(node, packed)

    for start, row in node.rows.items(wanted):
        if row.generation < generations.of(cluster, start) or _is_outlived(node, start, row):
            yield start


def gaps(node: NodeState) -> Iterator[int]:
    """Windows that were passed without being charged, since the node's life began earlier than known."""
    first, through, length_ns = node.first, node.through, node.length_ns
    if first is None or through is None:
        return
    begin = first if node.opened_from is None else max(first, node.opened_from)
    for hour in range(begin - begin % HOUR_NS, through, HOUR_NS):
        if node.rows.is_whole(hour, HOUR_NS // length_ns):
            continue
        for start in range(max(hour, begin), min(hour + HOUR_NS, through), length_ns):
            if start in node.rows:
                continue
            if not node.lifetimes.stated or node.alive_ns(start) or node.precedes_launch(start):
                yield start


def _is_outlived(node: NodeState, start: int, row: WindowRow) -> bool:
    return _differs(node, node.alive_ns(start), row.inputs > 0, row.alive_ns)


def _may_be_outlived(node: NodeState, packed: PackedRows) -> bool:
    """Whether any of these rows may be, told without unpacking them."""
    begin, end = packed.starts[0], packed.starts[-1] + node.length_ns
    alive_ns = -1
    if node.lifetimes.stated:
        alive = node.lifetimes.alive(begin, end)
        if alive not in ((), ((begin, end),)):
            return True
        alive_ns = node.length_ns if alive else 0
    return any(_differs(node, alive_ns, *charged) for charged in packed.alive)


def _differs(node: NodeState, alive_ns: int, has_inputs: bool, charged_ns: int) -> bool:
    whole = (-1, node.length_ns)
    same_charge = has_inputs and alive_ns in whole and charged_ns in whole
    return alive_ns != charged_ns and not same_charge
