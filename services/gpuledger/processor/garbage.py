"""How often the interpreter looks for garbage: records and rows have no cycles, and are many.

At Python's own thresholds a fifth of the time of a replay goes into looking.
"""

from __future__ import annotations

import gc

GARBAGE_AFTER = (50_000, 20, 20)  # allocations, then collections of the generation before


def collect_seldom() -> None:
    """Of this process, from now on."""
    gc.set_threshold(*GARBAGE_AFTER)
