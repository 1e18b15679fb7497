"""Which rules hold in a world, and how often what happens in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.processor.protocol import Rules
from tests.support.protocol_world.scale import RULES


@dataclass(frozen=True)
class Switches:
    """Rules that hold; each can be switched off, and then the checks must find it."""

    fencing: bool = True
    charges_first: bool = True
    ack_in_order: bool = True
    progress_loaded: bool = True
    ends_read_after_time: bool = True  # gpu.nodes is read after the time of a mark was taken


@dataclass(frozen=True)
class Faults:
    """How often each thing happens, and how many records can not be read."""

    unreadable: float = 0.03
    rules: Rules = RULES
    launched: int = 0  # ticks at which the life of the first node began
    largest: int = 1  # bytes of a record, at most
    layouts: int | None = None  # how many a node changes between; None: each is new, and none comes back
    round_bytes: int | None = None  # of a round, at least; None: as much as there is
    weights: Mapping[str, float] = field(
        default_factory=lambda: {
            "worker_crash": 3,
            "zombie": 2,
            "zombie_dies": 1,
            "agent_crash": 2,
            "agent_start": 5,
            "clock_step": 1,
            "far_ahead": 0.3,
            "spool_lost": 0.6,
            "network": 5,
            "node_dies": 0.3,
            "goodbye": 0.3,
            "end_stated": 1,
            "amendment": 1,
            "flood": 0.2,
            "stray": 0.4,
            "generation": 1,
            "mend": 1,
            "life_stated": 0.3,
        }
    )
