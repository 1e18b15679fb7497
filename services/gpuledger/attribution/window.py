"""What the core is given: one node's records of one window, and what it is computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gpuledger.attribution.policy import Policy
from gpuledger.contract.records import EventBatch, Holdings, NodeLayout, SampleBatch
from gpuledger.contract.revision import Revision

WindowState: TypeAlias = Literal["complete", "incomplete", "refused", "unobserved", "ended"]
"""complete: parts 0..last of one epoch, all readable. incomplete: some are not there. refused: a record
could not be read, nothing can be said. unobserved: no record at all. ended: the node did not live."""


@dataclass(slots=True, eq=False)
class NodeWindow:
    """One window of one node.

    ``holdings``, ``events`` and ``samples`` are the window's records in any order; amendments among them
    only name things. ``layout`` is what an empty or refused window is charged for: that of the nearest
    earlier keyframe. ``life_start_ns`` and ``life_end_ns`` bound the node's life where it began or ended
    inside the window. ``offset_ranges`` are (first, count) of the inputs' offsets in ``partition``.
    ``price_version`` and ``team_version`` pin versions (a generation does); None: what is active.
    """

    cluster: str
    node: str
    window_start_ns: int
    window_length_ns: int
    revision: Revision
    state: WindowState = "complete"
    holdings: Sequence[Holdings] = ()
    events: Sequence[EventBatch] = ()
    samples: Sequence[SampleBatch] = ()
    refused: int = 0
    layout: NodeLayout | None = None
    life_start_ns: int | None = None
    life_end_ns: int | None = None
    partition: int = -1
    offset_ranges: Sequence[tuple[int, int]] = ()
    price_version: int | None = None
    team_version: int | None = None
    policy: Policy = field(default_factory=Policy)

    @property
    def window_end_ns(self) -> int:
        """End of the window, exclusive."""
        return self.window_start_ns + self.window_length_ns

    @property
    def life_ns(self) -> tuple[int, int]:
        """[start, end) of the node's life within the window; empty where it did not live."""
        start, end = self.window_start_ns, self.window_end_ns
        if self.life_start_ns is not None:
            start = max(start, self.life_start_ns)
        if self.life_end_ns is not None:
            end = min(end, self.life_end_ns)
        return start, max(start, end)
