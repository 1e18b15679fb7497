"""Which changes of breaches people hear of: pure, so that history gives the same answer again.

A breach is told when it fires, and once more when it is over; what was never told is never called over.
While it is silenced or acknowledged it is not told as firing again; a silence that ends while the breach
still fires is a reason to tell it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuledger.contract.records import Breach
from gpuledger.notify.notice import Kind, Notice

FIRING = "firing"
OPEN_END_NS = 2**63 - 1
OVER = {"resolved": Kind.RESOLVED, "retracted": Kind.RETRACTED}


@dataclass(slots=True)
class _Life:
    breach: Breach
    told: bool = False  # people know of it, so they will want to know its end
    owed: bool = True  # when nothing suppresses it, it has to be told


def held_until_ns(breach: Breach) -> int:
    """Until when somebody acknowledged or silenced it (ns since the Unix epoch); 0 for nobody, OPEN_END_NS
    for an acknowledgement that lasts until the breach is over."""
    acknowledged_ns = 0
    if breach.acknowledged_by:
        until_ns = breach.acknowledged_until_ns
        acknowledged_ns = OPEN_END_NS if until_ns is None else until_ns
    return max(acknowledged_ns, breach.silenced_until_ns or 0)


def suppressed(breach: Breach, now_ns: int) -> bool:
    """Whether it is acknowledged or silenced now."""
    return now_ns < held_until_ns(breach)


class Book:
    """The breaches that live, and the last change of those that are over. Owned by one thread."""

    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}
        self._changes: dict[str, int] = {}

    def take(self, breach: Breach, at_ns: int) -> Notice | None:
        """What to tell of a change that came at ``at_ns``; None for nothing, or a change known already."""
        if breach.change <= self._changes.get(breach.id, 0):
            return None
        self._changes[breach.id] = breach.change
        if breach.state in OVER:
            life = self._lives.pop(breach.id, None)
            return Notice(OVER[breach.state], breach, at_ns) if life and life.told else None
        if breach.state != FIRING:
            return None  # pending; of what was told people hear when it is over
        life = self._lives.setdefault(breach.id, _Life(breach))
        before, life.breach = life.breach, breach
        if not suppressed(breach, at_ns):
            return self._fire(life, at_ns) if life.owed else None
        life.owed = True
        if not life.told or _same_hold(before, breach):
            return None
        return Notice(Kind.ACKNOWLEDGED if breach.acknowledged_by else Kind.SILENCED, breach, at_ns)

    def due(self, now_ns: int) -> Sequence[Notice]:
        """Breaches that fire and have to be told by now: their silence ended, or the target is new."""
        return [
            self._fire(life, now_ns)
            for life in self._lives.values()
            if life.owed and not suppressed(life.breach, now_ns)
        ]

    def owe_all(self) -> None:
        """Forget what was told: everything that fires is news, as it is to a new target."""
        for life in self._lives.values():
            life.owed = True

    def firing(self) -> Sequence[Breach]:
        """Breaches that fire, suppressed ones included."""
        return [life.breach for life in self._lives.values()]

    def _fire(self, life: _Life, at_ns: int) -> Notice:
        life.told, life.owed = True, False
        return Notice(Kind.FIRING, life.breach, at_ns)


def _same_hold(before: Breach, after: Breach) -> bool:
    return (before.acknowledged_by, held_until_ns(before)) == (after.acknowledged_by, held_until_ns(after))
