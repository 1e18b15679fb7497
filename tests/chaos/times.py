"""When a record speaks of a window that is no window yet; PROTOCOL's rule, said once more."""

from __future__ import annotations

from gpuledger.contract.windows import NS_PER_S

AHEAD_NS = 60 * NS_PER_S
NS_PER_MS = 1_000_000


def is_ahead(window_start_ns: int, arrived_ns: int) -> bool:
    """Whether a window begins so long after its record reached Kafka that it is an input of no window."""
    return window_start_ns > arrived_ns + AHEAD_NS
