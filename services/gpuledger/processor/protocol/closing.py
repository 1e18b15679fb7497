"""Which windows of a node close now, in order: by their last part, by a later window, or by silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuledger.processor.protocol.node import NodeState


def closing(node: NodeState, caught_up_ns: int | None) -> Iterator[int]:
    """The windows to close, in order.

    ``caught_up_ns``: all that lay in the partition at that broker time has been read.
    """
    silent = _is_silent(node, caught_up_ns)
    start = _next_start(node)
    while start is not None:
        held = node.held.of(start)
        passed_by = node.newest is not None and node.newest > start
        if held:
            if not (silent or passed_by or any(record.last for record in held.values())):
                return
        elif node.opened_from is not None and start < node.opened_from:
            start = node.opened_from
            continue
        elif not passed_by:
            late = caught_up_ns is not None and (
                start + node.length_ns + node.rules.silence_ns <= caught_up_ns
            )
            if not (silent and late and (is_owed(node, start) or _is_swept(node, start))):
                start = _skip_unlived(node, start, silent)
                continue
        if held or _in_order(node, start):
            yield start
        start += node.length_ns


def is_owed(node: NodeState, start: int) -> bool:
    """Whether a window without a record lies in the node's life, as far as that is known."""
    first = node.first
    if first is None or start < first:
        return False
    if node.lifetimes.stated:
        return node.alive_ns(start) > 0
    spoken = node.speaks(start, {})
    if spoken is not None and spoken[1].goodbye:
        return False
    newest = node.newest_spoken
    return newest is not None and start <= newest + node.rules.unstated_life_ns


def _next_start(node: NodeState) -> int | None:
    """The window after the last one closed; of a new node the first one that a record speaks of.

    What lies between the launch of a node and its first record is no reason to let its live windows wait:
    it is filled in beside them.
    """
    held = min((start for start in node.held.starts() if not node.is_passed(start)), default=None)
    if node.through is None:
        return node.first if held is None else held
    following = node.through + node.length_ns
    known = [start for start in (held, node.first) if start is not None]
    return max(following, min(known)) if known else None


def _in_order(node: NodeState, start: int) -> bool:
    """An empty window before the node's first one is no window of its life."""
    return node.first is not None and start >= node.first


def _is_silent(node: NodeState, caught_up_ns: int | None) -> bool:
    if caught_up_ns is None:
        return False
    return node.last_append_ns is None or caught_up_ns - node.last_append_ns >= node.rules.silence_ns


def _skip_unlived(node: NodeState, start: int, silent: bool) -> int | None:
    """Past the time between two stated lives; None where nothing more is to be closed now.

    Of a silent node also to a window that only a mended copy or an amendment spoke of.
    """
    if _is_swept(node, start):
        return None
    following = [other for other in node.held.starts() if other > start] if silent else []
    if node.lifetimes.stated and not node.alive_ns(start):
        launch = node.lifetimes.next_launch(start + node.length_ns)
        if launch is not None:
            following.append(node.grid.start(launch))
    elif node.lifetimes.stated or is_owed(node, start):
        return None
    return min(following, default=None)


def _is_swept(node: NodeState, start: int) -> bool:
    """Outside the node's life, and it may have been charged in ignorance of that: written as ended.

    That is what lies between the end and the moment at which it was told, and between the first record and
    a launch that was stated later.
    """
    first = node.first
    if first is None or start < first:
        return False
    told_ns: int | None
    if node.lifetimes.stated:
        if node.precedes_launch(start):
            return True
        told_ns = node.lifetimes.told_ns(start + node.length_ns)
    else:
        spoken = node.speaks(start, {})
        told_ns = spoken[1].goodbye_append_ns if spoken is not None and spoken[1].goodbye else None
    return told_ns is not None and start + node.length_ns + node.rules.silence_ns <= told_ns
