"""The rows of all windows as the lines of one bill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from gpuledger.attribution import ChargeRow, Charges
from gpuledger.charge.memory import Memory, Unbooked
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.rows import EVIDENCE_ORDER, NODE_DEVICE, POOL, Flag
from gpuledger.contract.windows import NS_PER_S

PARTS = ("used", "held_idle", "unallocated", "unobserved")
KEY = ("device", "consumer_kind", "consumer", "container", "reason")
_SAID = (
    "parent_uuid",
    "gpu_model",
    "mig_profile",
    "sharing",
    "namespace",
    "pod",
    "workload",
    "team",
    "cost_centre",
    "currency",
    "instance_type",
    "capacity_type",
    "region",
    "zone",
)
SILICON = ("sm_active", "sm_occupancy", "tensor_active", "dram_active", "framebuffer_used_bytes")
"""What the hardware counts of a whole device, never of one of those who share it."""
_SUMS = (
    "unpriced_ns",
    "effectively_used_ns",
    "effectively_used_nano",
    "borrowed_ns",
    "busy_ns",
    "launches",
    "confidence_low_ns",
    "confidence_high_ns",
)

Place: TypeAlias = tuple[str, ...]
"""(cluster, node, device, consumer kind, consumer, container, reason, team, currency): what tells a line from
the others."""
DeviceName: TypeAlias = tuple[str, str, str]
"""(cluster, node, device)."""


@dataclass
class Line:
    """What one consumer owes for one device over all of the time, or the pool for one reason.

    ``ns`` and ``nano`` by part; ``said`` are the row's texts; ``sums`` and ``means`` its other columns, means
    weighted with the windows' length. ``policies`` are the names of the rules by which idle and borrowed time
    was shared out, with every setting and the window's length.
    """

    place: Place
    key: dict[str, str]
    said: dict[str, str]
    ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    nano: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    priced: bool = False
    evidence: str = EVIDENCE_ORDER[0]
    energy_joules: float | None = None
    memory_peak_bytes: int = 0
    price_ids: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    flags: int = 0
    _means: dict[str, list[float]] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """Name of the cluster, empty where nobody says it."""
        return self.place[0]

    @property
    def node(self) -> str:
        """Name of the node."""
        return self.place[1]

    @property
    def device(self) -> DeviceName:
        """Its device, among those of all nodes."""
        return self.cluster, self.node, self.key["device"]

    @property
    def total_ns(self) -> int:
        """GPU time of all parts."""
        return sum(self.ns.values())

    @property
    def total_nano(self) -> int:
        """Money of all parts."""
        return sum(self.nano.values())

    @property
    def is_pool(self) -> bool:
        """Whether it is nobody's."""
        return self.key["consumer_kind"] == POOL

    @property
    def is_node(self) -> bool:
        """Whether it belongs to the node as a whole and to none of its GPUs."""
        return self.key["device"] == NODE_DEVICE

    @property
    def who(self) -> str:
        """The consumer as people call it."""
        if self.is_pool:
            return "(nobody)"
        if self.said["pod"]:
            return f"{self.said['namespace']}/{self.said['pod']}"
        return f"{self.key['consumer_kind']} {self.key['consumer']}"

    @property
    def alone(self) -> bool:
        """Whether what the silicon counted is this consumer's own: nobody else was on the device with it."""
        return not (self.is_pool or self.flags & Flag.SILICON_SHARED)

    @property
    def memory_bytes(self) -> float | None:
        """Mean device memory that is known to be its own; None where nobody measured it apart."""
        own = self.mean("memory_bytes")
        return self.mean("framebuffer_used_bytes") if own is None and self.alone else own

    def mean(self, name: str) -> float | None:
        """Mean of a measured column over the time it was measured; None where it never was."""
        weighed = self._means.get(name)
        return weighed[0] / weighed[1] if weighed else None

    @property
    def entitlement(self) -> float | None:
        """Mean share of the device that the consumer is entitled to."""
        return self.mean("entitlement")

    def add(self, row: ChargeRow, length_ns: int) -> None:
        """Add a row of a window of that length."""
        for part in PARTS:
            self.ns[part] += row[f"{part}_ns"]
            self.nano[part] += row[f"{part}_nano"] if row["priced"] else 0
        for name in _SUMS:
            self.sums[name] += row[name]
        self.priced |= bool(row["priced"])
        if row["used_ns"] or not self.ns["used"]:
            self.evidence = max(self.evidence, row["evidence"], key=EVIDENCE_ORDER.index)
        self.price_ids |= {price for price in row["price_ids"].split(",") if price}
        self.flags |= row["flags"]
        self.policies.add(row["policy"])
        self.memory_peak_bytes = max(self.memory_peak_bytes, row["memory_peak_bytes"])
        means = {name: row[name] for name in (*SILICON, "entitlement", "completeness")}
        means["memory_bytes"] = row["memory_byte_seconds"] * NS_PER_S / length_ns
        for name, value in means.items():
            if value == value:
                weighed = self._means.setdefault(name, [0.0, 0.0])
                weighed[0] += value * length_ns
                weighed[1] += length_ns
        if row["energy_joules"] == row["energy_joules"]:
            self.energy_joules = (self.energy_joules or 0.0) + row["energy_joules"]


@dataclass
class Bill:
    """All lines, the memory that nobody booked, and how far the lines are from what the devices cost (0, or
    the core is wrong)."""

    lines: list[Line]
    unbooked: list[Unbooked]
    start_ns: int
    end_ns: int
    conservation_error_nano: int
    conservation_error_ns: int

    @property
    def currencies(self) -> list[str]:
        """Every currency on the bill."""
        return sorted({line.said["currency"] for line in self.lines if line.said["currency"]})

    @property
    def unpriced_ns(self) -> int:
        """GPU time for which no price is known."""
        return sum(line.sums["unpriced_ns"] for line in self.lines)

    @cached_property
    def by_device(self) -> dict[DeviceName, list[Line]]:
        """The lines of each device, devices in the order of their first line."""
        found: dict[DeviceName, list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.device, []).append(line)
        return found


def place_of(record: ChargeSet, row: ChargeRow) -> Place:
    """Which line a row of a window belongs to."""
    key = tuple(str(row[name]) for name in KEY)
    return (record.cluster, record.node, *key, row["team"], row["currency"])


def bill_of(charges: Iterable[Charges]) -> Bill:
    """Sum the rows of windows by who owes for what; texts are those of the latest window."""
    lines: dict[Place, Line] = {}
    memory = Memory()
    money = time = 0
    starts, ends = [], []
    for charge in charges:
        record = charge.record
        money += charge.conservation_error_nano
        time += charge.conservation_error_ns
        starts.append(record.window_start_ns)
        ends.append(record.window_start_ns + record.window_length_ns)
        rows = list(charge.rows())
        memory.add(record, rows)
        for row in rows:
            key = {name: row[name] for name in KEY}
            said = {name: row[name] for name in _SAID}
            place = place_of(record, row)
            line = lines.setdefault(place, Line(place, key, said))
            line.said = said
            line.add(row, record.window_length_ns)
    order = sorted(
        lines.values(), key=lambda line: (line.is_pool, -line.total_nano, -line.total_ns, line.who)
    )
    return Bill(order, memory.unbooked(), min(starts), max(ends), money, time)


def sum_of(lines: Iterable[Line]) -> Line:
    """The amounts of several lines together."""
    total = Line((), {}, {})
    for line in lines:
        for part in PARTS:
            total.ns[part] += line.ns[part]
            total.nano[part] += line.nano[part]
        total.priced |= line.priced
        total.sums["unpriced_ns"] += line.sums["unpriced_ns"]
    return total


def team_sums(bill: Bill) -> list[tuple[str, Line]]:
    """(team, the sum of its lines), the dearest first."""
    names = dict.fromkeys(line.said["team"] for line in bill.lines)
    sums = [(name, sum_of(line for line in bill.lines if line.said["team"] == name)) for name in names]
    return sorted(sums, key=lambda entry: (-entry[1].total_nano, -entry[1].total_ns, entry[0]))
