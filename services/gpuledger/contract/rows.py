"""Words that charge rows use: reasons, evidences, flags. One word for one thing, in Python, SQL and docs."""

from __future__ import annotations

from enum import IntFlag

POOL = "pool"
NODE_DEVICE = "node"  # the device of rows that belong to the node as a whole
NO_DEVICE = "-"

EVIDENCE_ORDER = ("process_measured", "busy_estimated", "equal_active", "equal_slots", "device_total", "none")
"""From the strongest to the weakest; a row names the weakest that it used."""

REASONS = (
    "none",
    "free",
    "held",
    "lent",
    "stranded",
    "device_lost",
    "kept_by_cpu_pods",
    "non_gpu",
    "commitment",
    "agent_gap",
    "refused",
    "ended",
    "no_sample",
    "unexplained",
    "holders_unknown",
)


class Flag(IntFlag):
    """Remarks on a charge row, one bit each; never renumber."""

    OCCUPIED_CLAMPED = 1 << 0  # the occupied share was outside 0..1
    GPU_UTILIZATION_USED = 1 << 1  # the occupied share is GPU_UTIL, for want of anything better
    SAMPLE_SPREAD = 1 << 2  # a sample longer than the window was spread evenly
    SIGNALS_DISAGREE = 1 << 3  # the silicon and the kernel contradict each other
    SCALED_DOWN = 1 << 4  # measured shares summed above the occupied share
    INTRUDER = 1 << 5  # a process that nobody booked used a held device
    OFF_THE_BOOKS = 1 << 6  # the consumer holds nothing
    OVERBOOKED = 1 << 7  # entitlements summed above 1
    PENDING = 1 << 8  # the consumer's pod is not named yet
    DEVICE_UNKNOWN = 1 << 9  # calls whose device is not known are not in this row's usage
    UNWITNESSED = 1 << 10  # most of its outstanding time has no blocking end
    EVENTS_LOST = 1 << 11
    UNBOOKED_MEMORY = 1 << 12  # memory resident without a holding
    SILICON_SHARED = 1 << 13  # sm_active and its neighbours are the device's, on which others were too
    PRICE_PROVISIONAL = 1 << 14  # some of its money is at the last known price of a series; to be restated
