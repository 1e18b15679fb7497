"""The revision of a decided window: which of two computations holds.

Of a window with records: how many distinct inputs, and a digest of them. Statements of gpu.nodes that cut
the window (launch, end) count as inputs, or it would have two contents at one revision: one from before the
end of the node was told, and one from after. Where it has no readable keyframe of its own it is charged for
the devices of an earlier window, and the digest field begins with how near that one is, so that a keyframe
which comes late wins.

Of an empty window the digest field is an order, so that what is known later wins:

    bits 18-19  0: no life stated; 1: in the stated life; 2: outside it (ended)
    bits 2-17   how near the window is that it speaks from; 0: there is none
    bits 0-1    no life stated: a goodbye; in the stated life: how many statements cut it
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.revision import CORE_VERSION, Revision, digest_of_inputs
from gpuledger.processor.protocol.values import LogRecord

NEAREST_OF_EMPTY = (1 << 16) - 1  # windows; 7.5 days at 10 s, as late as a record may be
NEAREST_OF_BORROWED = (1 << 14) - 1  # windows; the rest of the field still tells the inputs apart
BORROWED_DIGEST_BITS = 6

Alive = tuple[tuple[int, int], ...]


def cuts(start_ns: int, end_ns: int, alive: Alive) -> int:
    """How many statements of gpu.nodes cut the window [start, end) down to ``alive``; 0..3."""
    if not alive:
        return 3
    gaps = 2 * (len(alive) - 1)
    return min(3, int(alive[0][0] > start_ns) + int(alive[-1][1] < end_ns) + gaps)


def rank_of_inputs(
    generation: int, node: NodeKey, inputs: Sequence[LogRecord], alive: Alive, cut: int, distance: int | None
) -> Revision:
    """Of a window with records, cut by ``cut`` statements down to ``alive``.

    ``distance``: windows to the one whose devices it is charged for, 0 for its own; None: there is none.
    """
    keys = [(record.identity, record.mend) for record in inputs]
    if cut:
        for start_ns, end_ns in alive or ((0, 0),):
            keys.append((RecordId(node.cluster, node.node, "lifetime", start_ns, end_ns), 0))
    digest = digest_of_inputs(keys)
    if distance != 0:
        nearness = _nearness(distance, NEAREST_OF_BORROWED)
        digest = nearness << BORROWED_DIGEST_BITS | digest & (1 << BORROWED_DIGEST_BITS) - 1
    return Revision(generation, len(inputs) + cut, digest, CORE_VERSION)


def rank_of_empty(
    generation: int, distance: int | None, *, stated: bool, outside: bool, flag: int
) -> Revision:
    """Of a window without records; ``distance`` in windows to the one it speaks from."""
    if outside:
        return Revision(generation, 0, 2 << 18, CORE_VERSION)
    nearness = _nearness(distance, NEAREST_OF_EMPTY)
    return Revision(generation, 0, int(stated) << 18 | nearness << 2 | flag, CORE_VERSION)


def distance_of(revision: Revision) -> int | None:
    """How many windows before lies the one whose devices a window is charged for that has no keyframe of its
    own; None where there is none."""
    if revision.inputs:
        nearness, nearest = revision.digest >> BORROWED_DIGEST_BITS, NEAREST_OF_BORROWED
    else:
        nearness, nearest = revision.digest >> 2 & NEAREST_OF_EMPTY, NEAREST_OF_EMPTY
    return nearest + 1 - nearness if nearness else None


def _nearness(distance: int | None, nearest: int) -> int:
    return 0 if distance is None else max(1, nearest + 1 - distance)
