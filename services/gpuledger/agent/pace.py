"""How often the agent's loop goes round: rarely, for a round costs something however little there is to do;
but before the source is full."""

from __future__ import annotations

import threading
from typing import Final, Protocol

LOOKS: Final = 5
LOOK_S: Final = 0.1  # a ring holds a tenth of a second of a million calls a second
MUCH_RATIO: Final = 1 / 16  # of what the source can hold


class Filling(Protocol):
    """What fills while the loop rests."""

    @property
    def filled_ratio(self) -> float:
        """How full it is, 0 to 1."""

    @property
    def probes_changed(self) -> bool:
        """Whether there is something new to be said of what it can see."""

    def follow(self, seconds: float) -> bool:
        """Lets so much time pass while it watches processes begin. False where it has not."""


def rest(stop: threading.Event, source: Filling | None) -> None:
    """Wait half a second (a window's last part is due within one), less if the source fills, if it sees more
    than before, or if all ends."""
    for _ in range(LOOKS):
        if source is not None and (source.filled_ratio > MUCH_RATIO or source.probes_changed):
            return
        if source is None or not source.follow(LOOK_S):
            stop.wait(LOOK_S)
        if stop.is_set():
            return
