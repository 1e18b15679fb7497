"""Device memory that is resident though nobody booked it: always listed, whatever it costs (CHARGING.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuledger.attribution import ChargeRow
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.rows import POOL, Flag
from gpuledger.contract.windows import NS_PER_S


class Owner(NamedTuple):
    """Whose memory it is, as far as anybody knows: all but the first three are empty where nobody does."""

    cluster: str
    node: str
    device: str
    consumer_kind: str = ""
    consumer: str = ""
    namespace: str = ""
    pod: str = ""

    @property
    def who(self) -> str:
        """The owner as people call it."""
        if not self.consumer_kind:
            return "no known consumer"
        return f"{self.namespace}/{self.pod}" if self.pod else f"{self.consumer_kind} {self.consumer}"


class Unbooked(NamedTuple):
    """Mean bytes over the time in which it is known, and the most of a window."""

    owner: Owner
    mean_bytes: float
    peak_bytes: float


@dataclass(slots=True)
class _Sum:
    byte_ns: float = 0.0
    ns: int = 0
    peak_bytes: float = 0.0

    def add(self, size: float, length_ns: int) -> None:
        self.byte_ns += size * length_ns
        self.ns += length_ns
        self.peak_bytes = max(self.peak_bytes, size)


class Memory:
    """Adds up over windows whose memory is resident on which device.

    A consumer that holds nothing there is named. What the device's framebuffer shows above what is known of
    consumers is nobody's, where consumers are known apart, or where nobody holds or uses the device at all.
    """

    def __init__(self) -> None:
        self._sums: dict[Owner, _Sum] = {}

    def add(self, record: ChargeSet, rows: Sequence[ChargeRow]) -> None:
        """The rows of a window."""
        length_ns = record.window_length_ns
        sizes: dict[Owner, float] = {}
        by_device: dict[str, list[ChargeRow]] = {}
        for row in rows:
            by_device.setdefault(row["device"], []).append(row)
            if row["flags"] & Flag.UNBOOKED_MEMORY:
                names = (row["consumer_kind"], row["consumer"], row["namespace"], row["pod"])
                owner = Owner(record.cluster, record.node, row["device"], *names)
                sizes[owner] = sizes.get(owner, 0.0) + _own_bytes(row, length_ns)
        for device, mine in by_device.items():
            rest = _of_nobody(mine, length_ns)
            if rest is not None:
                sizes[Owner(record.cluster, record.node, device)] = rest
        for owner, size in sizes.items():
            self._sums.setdefault(owner, _Sum()).add(size, length_ns)

    def unbooked(self) -> list[Unbooked]:
        """What there is of it, the most first."""
        found = [
            Unbooked(owner, one.byte_ns / one.ns, one.peak_bytes)
            for owner, one in self._sums.items()
            if one.byte_ns > 0
        ]
        return sorted(found, key=lambda one: (-one.mean_bytes, one.owner))


def _of_nobody(rows: Sequence[ChargeRow], length_ns: int) -> float | None:
    """Bytes of a device that are no known consumer's; None where nothing says."""
    shown = [row["framebuffer_used_bytes"] for row in rows]
    used = max((value for value in shown if value == value), default=None)
    consumers = [row for row in rows if row["consumer_kind"] != POOL]
    known = [row for row in consumers if row["memory_peak_bytes"]]
    if used is None or (consumers and not known):
        return None
    return max(0.0, float(used) - sum(_own_bytes(row, length_ns) for row in known))


def _own_bytes(row: ChargeRow, length_ns: int) -> float:
    return float(row["memory_byte_seconds"]) * NS_PER_S / length_ns
