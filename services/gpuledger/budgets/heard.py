"""How far anybody has told of a partition: its owner, those before it, and any that go on.

The second stage judges by the greatest version that was told. A state has what is counted up to its own;
where more was told already, whoever begins at the state must read that as well.
"""

from __future__ import annotations


class Heard:
    """What lies in gpu.budget-subtotals of a partition. ``version`` is the greatest so far."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._beyond: list[
            tuple[int, int]
        ] = []  # offset and version of what was told of more than is counted

    def take(self, offset: int, version: int, position: int) -> bool:
        """Know of a subtotal, in the order of their offsets; ``position`` is how far is counted. Whether it
        holds at the second stage, where the greatest version does."""
        holds = version >= self.version
        self.version = max(self.version, version)
        if version > position:
            self._beyond.append((offset, version))
        return holds

    def needed_from(self, position: int, end: int) -> int:
        """From which offset on subtotals say more than a state of ``position``; ``end`` is behind what was
        heard."""
        self._beyond = [told for told in self._beyond if told[1] > position]
        return min((offset for offset, _ in self._beyond), default=end)
