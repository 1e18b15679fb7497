"""The mixtures of faults that the protocol is run under, each with its share of all runs."""

from __future__ import annotations

from dataclasses import replace

from tests.support.protocol_world.mixture import Faults
from tests.support.protocol_world.scale import RULES, WINDOW_NS

ALL = Faults().weights
TAKEOVERS = {**ALL, "worker_crash": 5, "zombie": 8, "zombie_dies": 0.5, "amendment": 2, "stray": 1}
UNTIMELY = {**ALL, "generation": 4, "goodbye": 1, "node_dies": 1, "end_stated": 4, "life_stated": 3}
ENDS_BESIDE_ZOMBIES = {
    **ALL, "node_dies": 0.6, "end_stated": 10, "zombie": 4, "zombie_dies": 0, "worker_crash": 0,
    "agent_crash": 0, "generation": 0,
}  # fmt: skip
BROKEN_AGENTS = {**ALL, "agent_crash": 5, "agent_start": 8, "clock_step": 4, "far_ahead": 2, "spool_lost": 2}
FLOODS = {**ALL, "flood": 4, "stray": 2, "amendment": 3, "mend": 3}
SMALL = replace(RULES, window_records=7, window_bytes=40)
FORGETFUL = replace(RULES, oldest_ns=10 * WINDOW_NS)

COMING_BACK = {
    **ALL, "network": 8, "agent_crash": 5, "spool_lost": 2, "clock_step": 3, "worker_crash": 8, "zombie": 4,
    "goodbye": 0.6, "mend": 2,
}  # fmt: skip

SUITES: dict[str, tuple[float, Faults]] = {
    "all-faults": (0.15, Faults()),
    "takeovers": (0.15, Faults(weights=TAKEOVERS)),
    "ends-launches-generations": (0.15, Faults(weights=UNTIMELY)),
    "broken-agents": (0.1, Faults(unreadable=0.15, weights=BROKEN_AGENTS)),
    "full-windows": (0.15, Faults(weights=FLOODS, rules=SMALL, largest=9)),
    "launched-long-ago": (0.15, Faults(rules=FORGETFUL, launched=-60)),
    "layouts-that-come-back": (0.08, Faults(unreadable=0.15, layouts=2, weights=COMING_BACK)),
    "rounds-of-few-bytes": (
        0.07, Faults(unreadable=0.15, layouts=2, weights=COMING_BACK, round_bytes=6, largest=9)
    ),
}  # fmt: skip
