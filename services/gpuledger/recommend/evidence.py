"""What the rules look at: hours of workloads, nodes and stranded slices. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from gpuledger.spend import Span

HOUR_S = 3_600


class Hour(NamedTuple):
    """An hour of a workload, a node or a slice, from ``start_s`` on (s since the Unix epoch).

    GPU time in ns; ``low_ns`` and ``high_ns`` bound ``used_ns``. Money in 1e-9 of the currency, None where
    nothing of it has a price; ``idle_nano`` is what was held idle. ``memory_bytes`` is the most device memory
    that one consumer had on one device.
    """

    start_s: int
    total_ns: int
    used_ns: int = 0
    low_ns: int = 0
    high_ns: int = 0
    total_nano: int | None = None
    idle_nano: int | None = None
    memory_bytes: int = 0


@dataclass(frozen=True)
class WorkloadUse:
    """A workload of a team on one kind of device; ``hours`` in order, only those in which it held something.

    ``workload`` is ``Deployment/ranker``, or ``Pod/NAME`` where nothing owns the pod. ``life_s`` is the
    median life of its pods within the evidence, to the hour, ``gpus_a_pod`` the most devices that one had.
    GPU time and money of its hours are what was used or held idle; what was not observed is no evidence.
    """

    cluster: str
    namespace: str
    workload: str
    team: str
    gpu_model: str
    sharing: str
    mig_profile: str
    capacity_type: str
    currency: str
    hours: Sequence[Hour]
    pods: int = 1
    life_s: int = 0
    gpus_a_pod: int = 1

    @property
    def subject(self) -> str:
        """``cluster/namespace/Deployment/ranker``."""
        return f"{self.cluster}/{self.namespace}/{self.workload}"

    @property
    def kind(self) -> str:
        """``Deployment``."""
        return self.workload.partition("/")[0]

    @property
    def name(self) -> str:
        """``ranker``."""
        return self.workload.partition("/")[2]

    @property
    def has_whole_gpus(self) -> bool:
        """Whether each of its GPUs is one pod's alone: no slice, and not shared."""
        return self.sharing == "exclusive" and not self.mig_profile


class KeptBy(NamedTuple):
    """A pod without a GPU that keeps a node alive (``namespace/name``), its controlling owner, and what of
    the pod stops an autoscaler (words of the record Keeper)."""

    pod: str
    workload: str = ""
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeUse:
    """A node; ``total_ns`` of its hours is GPU time that somebody held or used or that was not observed,
    the money is all of the node's. ``kept`` are the hours in which only pods without GPUs kept it alive,
    ``kept_by`` some of the ``kept_by_count`` pods that did so last."""

    cluster: str
    node: str
    instance_type: str
    capacity_type: str
    currency: str
    hours: Sequence[Hour]
    kept: frozenset[int] = frozenset()
    last_workload: str = ""
    last_team: str = ""
    kept_by: Sequence[KeptBy] = ()
    kept_by_count: int = 0

    @property
    def subject(self) -> str:
        """``cluster/node``."""
        return f"{self.cluster}/{self.node}"


@dataclass(frozen=True)
class Stranded:
    """MIG slices of a GPU that no instance can take, and the instances that are there."""

    cluster: str
    node: str
    device: str
    gpu_model: str
    instances: str
    currency: str
    hours: Sequence[Hour]

    @property
    def subject(self) -> str:
        """``cluster/node/GPU-...``."""
        return f"{self.cluster}/{self.node}/{self.device}"


@dataclass(frozen=True)
class Evidence:
    """Everything of a span. ``spot_ratio``: by GPU model, spot money a GPU-hour over on-demand money."""

    span: Span
    workloads: Sequence[WorkloadUse] = ()
    nodes: Sequence[NodeUse] = ()
    stranded: Sequence[Stranded] = ()
    spot_ratio: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def whole_workloads(self) -> Sequence[WorkloadUse]:
        """Each workload once, over all kinds of devices that it is on: it is scaled as a whole."""
        found: dict[tuple[str, ...], WorkloadUse] = {}
        for one in self.workloads:
            key = (one.cluster, one.namespace, one.workload, one.team, one.currency)
            known = found.get(key)
            found[key] = one if known is None else _with(known, one)
        return list(found.values())

    def length_s(self, hour: Hour) -> int:
        """How much of an hour lies in the span: the one under way is not over."""
        return min(hour.start_s + HOUR_S, self.span.until_s) - max(hour.start_s, self.span.start_s)


def _with(known: WorkloadUse, other: WorkloadUse) -> WorkloadUse:
    """Both as one; a slice, or what is shared, stays what is said of it."""
    of = other if known.has_whole_gpus else known
    hours = _together(known.hours, other.hours)
    return replace(known, hours=hours, sharing=of.sharing, mig_profile=of.mig_profile)


def _together(*several: Sequence[Hour]) -> list[Hour]:
    found: dict[int, Hour] = {}
    for hour in (hour for hours in several for hour in hours):
        known = found.get(hour.start_s)
        found[hour.start_s] = hour if known is None else _sum(known, hour)
    return [found[start] for start in sorted(found)]


def _sum(a: Hour, b: Hour) -> Hour:
    return Hour(
        a.start_s,
        a.total_ns + b.total_ns,
        a.used_ns + b.used_ns,
        a.low_ns + b.low_ns,
        a.high_ns + b.high_ns,
        _plus(a.total_nano, b.total_nano),
        _plus(a.idle_nano, b.idle_nano),
        max(a.memory_bytes, b.memory_bytes),
    )


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
