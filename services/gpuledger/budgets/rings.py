"""Amounts in the buckets of the last hours."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

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

    def put_all(self, starts_ns: Longs, amounts: Longs) -> Longs:
        """Set several buckets, each once; by how much each is more. What is forgotten already stays so."""
        values, places, kept = self._places(starts_ns)
        changes = np.where(kept, amounts - values[places], 0)
        values[places[kept]] = amounts[kept]
        return changes

    def add_all(self, starts_ns: Longs, changes: Longs) -> None:
        """Add to several buckets, to each once, unless they are forgotten already."""
        values, places, kept = self._places(starts_ns)
        values[places[kept]] += changes[kept]

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

    def columns(self) -> tuple[Longs, Longs]:
        """Starts and amounts of the buckets that have one, in the order of time."""
        numbers = np.arange(max(0, self.newest - RING_BUCKETS + 1), self.newest + 1)
        amounts = np.frombuffer(self._values, np.int64)[numbers % RING_BUCKETS]
        filled = amounts != 0
        return numbers[filled] * self.length_ns, amounts[filled]

    def __len__(self) -> int:
        """How many buckets have an amount."""
        return RING_BUCKETS - self._values.count(0)

    def _places(self, starts_ns: Longs) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
        """The values, to be changed in place, where in them the buckets are, and which of these are kept."""
        numbers = starts_ns // self.length_ns
        if numbers.size:
            self._reaches(int(numbers.max()))
        values: Longs = np.frombuffer(self._values, np.int64)
        return values, numbers % RING_BUCKETS, numbers > self.newest - RING_BUCKETS

    def _reaches(self, number: int) -> bool:
        if number > self.newest:
            for fresh in range(max(self.newest + 1, number - RING_BUCKETS + 1), number + 1):
                self._values[fresh % RING_BUCKETS] = 0
            self.newest = number
        return number > self.newest - RING_BUCKETS
