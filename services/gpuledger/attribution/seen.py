"""What is known of a device and of each process on it in one piece, before anybody judges it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from gpuledger.attribution.consumers import ConsumerKey

NOTICEABLE = 0.05  # of a piece; less outstanding or measured work decides nothing (CHARGING.md: 5 %)
MOSTLY = 0.5  # of a process's outstanding time; above it counts as unwitnessed (emulator study, E5n)
KNOWN = 0.9  # of a process's outstanding time; of so much the durations must be learned to go by them
LEARNED_DOUBT = 0.05  # of what learned durations say: they may differ from call to call by some percent


@dataclass(slots=True)
class ProcessView:
    """What is known of one process on one device in one piece; ns of the piece.

    ``estimated`` is processor sharing, ``outstanding`` its time with work outstanding: ``alone`` without
    others, ``end_unseen`` without a witnessed end, ``brief`` in bursts shorter than a time slice beside
    others; ``uneven`` is what longer bursts may come off wrong by, a part of a slice each. ``cap`` and
    ``tight`` are the most that it can have had by how fast its bursts can be, the first for brief bursts
    only. ``learned`` is what learned durations sum to, over ``outstanding`` less ``unlearned``.
    """

    consumer: ConsumerKey
    container: str
    witnessed: bool = True  # its calls are seen
    estimated: float = 0.0
    outstanding: float = 0.0
    alone: float = 0.0
    end_unseen: float = 0.0
    brief: float = 0.0
    uneven: float = 0.0
    cap: float = 0.0
    tight: float = 0.0
    learned: float = 0.0
    unlearned: float = 0.0
    measured: float = 0.0
    measured_cover: float = 0.0
    measured_squares: float = 0.0
    measured_count: int = 0

    @property
    def mostly_unseen(self) -> bool:
        """Whether the ends of most of its work were not seen."""
        return self.end_unseen > MOSTLY * self.outstanding

    @property
    def known(self) -> bool:
        """Whether learned durations say how much it asked for."""
        return self.learned > 0 and self.unlearned <= (1 - KNOWN) * self.outstanding

    @property
    def demand(self) -> float:
        """What it asked for by learned durations, the rest by processor sharing; at most ``outstanding``."""
        rest = self.estimated * self.unlearned / self.outstanding if self.outstanding else 0.0
        return min(self.outstanding, self.learned + rest)

    @property
    def measured_error(self) -> float:
        """Standard error of ``measured`` in ns, from how much its samples scatter."""
        if self.measured_count < 2:
            return 0.0
        scatter = self.measured_squares * self.measured_cover - self.measured**2
        return math.sqrt(max(0.0, scatter) / self.measured_count)

    @property
    def doubtful(self) -> float:
        """The part of its estimate (0..1) that may be wrong: what is neither learned nor seen to its end,
        or was shorter than a time slice beside others."""
        if self.known:
            return LEARNED_DOUBT
        return min(1.0, max(self.end_unseen, self.brief) / self.outstanding) if self.outstanding else 0.0


class DeviceView(NamedTuple):
    """What the silicon says of a device in one piece: ratios 0..1, None where missing. ``engine_long``
    comes from samples that are longer than the window, and so does ``sm_active`` where ``sm_long``."""

    engine_active: float | None = None
    engine_long: float | None = None
    gpu_utilization: float | None = None
    sm_active: float | None = None
    sm_long: bool = False
