"""Amounts in the buckets of the last hours."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from gpuledger.contract.columns import Longs

RING_BUCKETS = 301  # the longest rolling period, and the bucket under way; the spans of burn rate need 73


class Ring:
    """The newest RING_BUCKETS buckets of ``length_ns``, aligned to the Unix epoch; older ones are gone."""

    __slots__ = ("_values", "length_ns", "newest")

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self.newest = -1  # number of the newest bucket, since the epoch
        self._values = array("q", bytes(8 * RING_BUCKETS))  # one value of it is had faster than of numpy's

    def add(self, at_ns: int, amount: int) -> int | None:
        """Add to the bucket of an instant and return its start; None where it is forgotten already."""
        number = at_ns // self.length_ns
        if not self._reaches(number):
            return None
        self._values[number % RING_BUCKETS] += amount
        return number * self.length_ns

    def put(self, start_ns: int, amount: int) -> None:
        """Set a bucket, unless it is forgotten already."""
        number = start_ns // self.length_ns
        if self._reaches(number):
            self._values[number % RING_BUCKETS] = amount

    def get(self, start_ns: int) -> int:
        """The amount of a bucket; 0 where it is not kept."""
        number = start_ns // self.length_ns
        kept = self.newest - RING_BUCKETS < number <= self.newest
        return self._values[number % RING_BUCKETS] if kept else 0

    def sum(self, first_ns: int, end_ns: int) -> int:
        """The amount of the buckets that start in [first, end), as far as they are kept."""
        low = max(-(-first_ns // self.length_ns), self.newest - RING_BUCKETS + 1)
        high = min((end_ns - 1) // self.length_ns, self.newest)
        if low > high:
            return 0
        first, last = low % RING_BUCKETS, high % RING_BUCKETS
        if first <= last:
            return sum(self._values[first : last + 1])
        return sum(self._values[first:]) + sum(self._values[: last + 1])

    def values(self, first_ns: int, count: int) -> Longs:
        """The amounts of ``count`` buckets from the one that starts at ``first_ns`` on; 0 where not kept."""
        numbers = first_ns // self.length_ns + np.arange(count)
        kept = (numbers > self.newest - RING_BUCKETS) & (numbers <= self.newest)
        return np.where(kept, np.array(self._values)[numbers % RING_BUCKETS], 0)

    def items(self) -> Iterator[tuple[int, int]]:
        """(start, amount) of each bucket that has one."""
        for number in range(max(0, self.newest - RING_BUCKETS + 1), self.newest + 1):
            amount = self._values[number % RING_BUCKETS]
            if amount:
                yield number * self.length_ns, amount

    def _reaches(self, number: int) -> bool:
        if number > self.newest:
            for fresh in range(max(self.newest + 1, number - RING_BUCKETS + 1), number + 1):
                self._values[fresh % RING_BUCKETS] = 0
            self.newest = number
        return number > self.newest - RING_BUCKETS
