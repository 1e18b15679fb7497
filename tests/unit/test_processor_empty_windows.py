"""Empty windows behind ones that are restated: they are restated too, and outrank who knew less."""

from __future__ import annotations

from gpuledger.contract.records import NodeLayout
from gpuledger.processor.protocol import Lifetime, PartitionOwner, WindowRow
from gpuledger.processor.protocol.ranks import rank_of_empty
from tests.support.owning import (
    HOUR,
    LAYOUT,
    NODE,
    OFFSETS,
    START,
    S,
    W,
    decided_by,
    hour_of,
    owner,
    record,
    taken,
)

OTHER_KIND = NodeLayout(instance_type="other")


def after_three_empty() -> PartitionOwner:
    """An owner of a node whose last three windows said nothing."""
    rows = hour_of(HOUR)
    for start in range(START - 3 * W, START, W):
        rows[start] = WindowRow(0, 0)
    return owner(taken(rows))


def test_an_empty_window_that_an_end_cuts_outranks_one_that_a_fenced_owner_charged_whole() -> None:
    rows, late, cut = hour_of(HOUR), START - 4 * W, START - 2 * W
    for start in range(START - 5 * W, START, W):
        rows[start] = WindowRow(0, 0, alive_ns=W)
    rows[cut], rows[START - W] = WindowRow(0, 0, alive_ns=3 * S), WindowRow(0, 0, alive_ns=0)
    node = owner(taken(rows), lifetimes=[(NODE, Lifetime(HOUR, cut + 3 * S, START))])
    log = [record(OFFSETS, late)]
    node.read(log[0])
    batch = node.settle(node.plan(), {(NODE, late): log})
    assert [decision.window_start_ns for decision in batch.decisions] == [late, cut]
    unaware = rank_of_empty(0, (cut - late) // W, stated=True, outside=False, flag=0)
    assert batch.decisions[1].alive == ((cut, cut + 3 * S),)
    assert batch.decisions[1].revision.packed > unaware.packed


def test_an_empty_window_is_restated_where_late_keyframes_change_and_change_back() -> None:
    node, empty = after_three_empty(), START - W
    log = [
        record(OFFSETS, START - 3 * W)._replace(layout=OTHER_KIND),
        record(OFFSETS + 1, START - 2 * W),
    ]
    for one in log:
        node.read(one)
    unions = {(NODE, one.window_start_ns): [one] for one in log}
    last = node.settle(node.plan(), unions).decisions[-1]
    fenced = rank_of_empty(0, 2, stated=False, outside=False, flag=0)  # from the first late one alone
    assert (last.window_start_ns, last.layout) == (empty, LAYOUT)
    assert last.revision.packed > fenced.packed


def test_an_empty_window_is_restated_where_one_behind_spoke_first() -> None:
    """Of two late keyframes the later window's lies first in the log, and was worked off alone."""
    node, empty = after_three_empty(), START - W
    log = [
        record(OFFSETS, START - 2 * W),
        record(OFFSETS + 1, START - 3 * W)._replace(layout=OTHER_KIND),
    ]
    node.read(log[0])
    assert [one.window_start_ns for one in decided_by(node, log)] == [START - 2 * W], "it says what was said"
    node.read(log[1])
    last = decided_by(node, log)[-1]
    fenced = rank_of_empty(0, 2, stated=False, outside=False, flag=0)  # from the other one alone
    assert (last.window_start_ns, last.layout) == (empty, LAYOUT)
    assert last.revision.packed > fenced.packed
