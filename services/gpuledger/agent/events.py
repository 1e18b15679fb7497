"""Events as the agent holds them between ring and record: agent time, process and device resolved."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

AGENT_EVENT: Final = np.dtype(
    [
        ("time_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("bytes", "<i8"),
        ("launched_threads", "<i8"),
        ("function", "<i8"),
        ("span_ns", "<i8"),
        ("process", "<i8"),
        ("tid", "<i8"),
        ("result", "<i4"),
        ("operation", "<i4"),
        ("device", "<i4"),
    ]
)
"""One call.

- ``time_ns`` ns since the Unix epoch in agent time at the return
- ``process`` index into the process table; ``device`` position in the node's devices, -1 where not known
- ``function`` 64-bit handle as signed, 0 where there is none
- ``span_ns`` 0, or more where the event came after its window had gone: it returned in
  (time_ns - span_ns, time_ns]
"""

Events = npt.NDArray[np.void]
"""An array of `AGENT_EVENT`."""

UNKNOWN_DEVICE: Final = -1


def no_events() -> Events:
    """An empty array."""
    return np.empty(0, AGENT_EVENT)
