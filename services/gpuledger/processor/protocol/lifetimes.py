"""The life of a node as gpu.nodes states it, and what of a window lies in it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.processor.protocol.values import Lifetime


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The stated lives of one node name, by launch; none where nobody states any."""

    lives: tuple[Lifetime, ...] = ()

    def with_life(self, life: Lifetime) -> Lifetimes:
        """With one more statement; it replaces an earlier one of the same instance.

        An end is never taken back, and the time at which it was first told stands.
        """
        known = {entry.instance: entry for entry in self.lives}
        before = known.get(life.instance)
        if before is not None and before.ended_ns is not None:
            if life.ended_ns is None:
                life = life._replace(ended_ns=before.ended_ns)
            if life.ended_ns == before.ended_ns:
                life = life._replace(told_ns=before.told_ns)
        known[life.instance] = life
        return Lifetimes(tuple(sorted(known.values(), key=lambda entry: (_launch(entry), entry.instance))))

    @property
    def stated(self) -> bool:
        """Whether gpu.nodes says anything of this node."""
        return bool(self.lives)

    def alive(self, start_ns: int, end_ns: int) -> tuple[tuple[int, int], ...]:
        """The parts of [start, end) that lie in a stated life; all of it where none is stated."""
        if not self.lives:
            return ((start_ns, end_ns),)
        parts: list[tuple[int, int]] = []
        for life in self.lives:
            first = max(start_ns, _launch(life))
            last = end_ns if life.ended_ns is None else min(end_ns, life.ended_ns)
            if parts and first <= parts[-1][1]:
                first = parts.pop()[0] if last > parts[-1][1] else last
            if first < last:
                parts.append((first, last))
        return tuple(parts)

    def alive_ns(self, start_ns: int, end_ns: int) -> int:
        """How much of [start, end) lies in a stated life, in ns; -1 where none is stated."""
        if not self.lives:
            return -1
        return sum(last - first for first, last in self.alive(start_ns, end_ns))

    def untold_ns(self, start_ns: int, end_ns: int, told_ns: int) -> int:
        """How much of [start, end) lies in stated lives, but for those whose end was told by ``told_ns``."""
        known = (life for life in self.lives if life.told_ns is None or life.told_ns > told_ns)
        return max(0, Lifetimes(tuple(known)).alive_ns(start_ns, end_ns))

    @property
    def launched_ns(self) -> int | None:
        """The first launch; None where it is not known."""
        return self.lives[0].launched_ns if self.lives else None

    def next_launch(self, at_ns: int) -> int | None:
        """The first launch at or after ``at_ns``."""
        return next((_launch(life) for life in self.lives if _launch(life) >= at_ns), None)

    def told_ns(self, at_ns: int) -> int | None:
        """When the end of the latest life that ended by ``at_ns`` was told; None where none has."""
        told = None
        for life in self.lives:
            if _launch(life) <= at_ns and life.ended_ns is not None and life.ended_ns <= at_ns:
                told = life.told_ns
        return told


def _launch(life: Lifetime) -> int:
    return 0 if life.launched_ns is None else life.launched_ns
