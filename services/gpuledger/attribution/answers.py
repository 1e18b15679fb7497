"""Work whose end the process asked for, instead of waiting for it.

Who polls an event or a stream learns that it is done from the first query that succeeds. Which event that was
is not recorded, and programs also ask for events of long ago (memory pools, watchdogs). So a query ends work
only for a process that never waits in the window, and only where it then pauses; and the end counts as not
witnessed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.gather import IS_WAIT, IS_WORK, QUERY, Pass

MIN_BLOCKED_NS = 4_000  # a call that returns sooner did not wait: it costs that much by itself
PAUSE_NS = 500_000  # without a call that hands over work; launches follow each other within some microseconds


def answers(columns: Pass) -> npt.NDArray[np.intp]:
    """The rows of a pass that are queries which ended all work of their process on their device."""
    asked = columns.kind == QUERY
    if not asked.any():
        return np.zeros(0, np.intp)
    asked &= columns.result == 0
    if columns.tallied is not None:
        asked &= ~columns.tallied
    polls = np.zeros(columns.pairs, bool)
    polls[columns.pair[asked]] = True
    waited = IS_WAIT[columns.kind] & (columns.duration > MIN_BLOCKED_NS)
    polls[columns.pair[waited]] = False
    rows = np.flatnonzero(polls[columns.pair] & (asked | IS_WORK[columns.kind]))
    rows = rows[np.lexsort((columns.time[rows], columns.pair[rows]))]
    time, pair = columns.time[rows], columns.pair[rows]
    begins = time - columns.duration[rows]
    if not len(rows):
        return rows
    pause = np.append(begins[1:] - time[:-1], PAUSE_NS)
    last = np.append(pair[1:] != pair[:-1], True)
    found: npt.NDArray[np.intp] = rows[asked[rows] & (last | (pause >= PAUSE_NS))]
    return found
