"""Who is entitled to which part of a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from gpuledger.attribution.consumers import POD, ConsumerKey
from gpuledger.attribution.devices import Slot
from gpuledger.attribution.mig import FREE
from gpuledger.contract.records import Holder, Holdings, Keeper

KEPT_BY_CPU_PODS = "kept_by_cpu_pods"
KEEPING_PHASES = frozenset({"Pending", "Running"})
RELEASED_PHASES = frozenset({"Succeeded", "Failed"})  # a pod in any other phase holds its devices


class Entitlement(NamedTuple):
    """A holder of a device: its part is ``weight`` of the holding's denominator. ``containers`` are
    (container, slots) in order of name, ``percentages`` (container, part of the SMs in percent) of those for
    which one is stated: the MPS thread percentage, or the core fraction."""

    consumer: ConsumerKey
    weight: int
    containers: tuple[tuple[str, int], ...]
    percentages: tuple[tuple[str, float], ...] = ()

    def percentage_of(self, container: str) -> float:
        """Part of the SMs that a process in a container may use, 0..100; where the container is not known,
        the most that the holder has."""
        stated = dict(self.percentages)
        if len(stated) < len(self.containers):
            return stated.get(container, 100.0)
        return stated.get(container, max(stated.values(), default=100.0))

    @property
    def limit(self) -> float:
        """The most of the SMs that all of its processes may use, 0..1, where the percentages are limits."""
        if len(self.percentages) < len(self.containers):
            return 1.0
        return min(1.0, sum(percentage for _, percentage in self.percentages) / 100)


class Holding(NamedTuple):
    """Who holds a device. ``denominator`` is at least the sum of the weights; the rest is nobody's, for the
    reason ``free_reason``."""

    entitlements: tuple[Entitlement, ...] = ()
    denominator: int = 1
    overbooked: bool = False
    known: bool = True
    free_reason: str = FREE

    @property
    def free_weight(self) -> int:
        """What nobody holds, of the denominator."""
        return self.denominator - sum(entitlement.weight for entitlement in self.entitlements)


class Held(NamedTuple):
    """Who holds what in a state: the holders of each device by its place in the layout, without those whose
    pods have finished; None where nobody can say. ``free_reason``: why nobody holds the rest."""

    by_device: dict[int, list[Holder]] | None
    free_reason: str = FREE


def held_in(state: Holdings) -> Held:
    """The holders of a state by device."""
    if not state.holders_known:
        return Held(None)
    released = {pod.uid for pod in state.pods if pod.phase in RELEASED_PHASES}
    by_device: dict[int, list[Holder]] = {}
    for holder in state.holders:
        if holder.consumer_kind != POD or holder.consumer not in released:
            by_device.setdefault(holder.device, []).append(holder)
    kept = not by_device and (state.keepers_count > 0 or _cpu_pods_keep(state))
    return Held(by_device, KEPT_BY_CPU_PODS if kept else FREE)


def keepers_of(states: Iterable[Holdings | None]) -> tuple[list[Keeper], int]:
    """(the pods without GPUs that are named as keeping the node alive, how many there are), by the last of
    a window's states in order of time in which nobody held a GPU and such pods were counted."""
    for state in reversed(list(states)):
        if state is not None and state.keepers_count and held_in(state).free_reason == KEPT_BY_CPU_PODS:
            return state.keepers, state.keepers_count
    return [], 0


def _cpu_pods_keep(state: Holdings) -> bool:
    """Whether pods without GPUs keep a node alive of which nobody holds a GPU (karpenter#8447). A DaemonSet's
    pods keep no node alive."""
    users = {process.consumer for process in state.processes}
    return any(
        pod.phase in KEEPING_PHASES and pod.workload_kind != "DaemonSet" and pod.uid not in users
        for pod in state.pods
    )


def holding_of(held: Held, slot: Slot) -> Holding:
    """Who holds a device (CHARGING.md, Entitlements).

    k of K slots are k/K, a stated share counts as stated, and what sums above 1 is divided by its sum. On
    an exclusive device that is a claim shared in equal parts; elsewhere it is overbooked.
    """
    if held.by_device is None:
        return Holding(known=False)
    holders = held.by_device.get(slot.index)
    if not holders:
        return Holding(free_reason=held.free_reason)
    if len(holders) == 1 and slot.sharing == "exclusive" and _has_all(holders[0], slot):
        holder = holders[0]
        key = ConsumerKey(holder.consumer_kind or POD, holder.consumer)
        return Holding((Entitlement(key, 1, ((holder.container, max(holder.slots, 1)),)),))
    if slot.sharing != "exclusive" and not any(_says_more(holder, slot) for holder in holders):
        return _by_slots(holders, slot.replicas)
    parts: dict[ConsumerKey, Fraction] = {}
    containers: dict[ConsumerKey, dict[str, int]] = {}
    percentages: dict[ConsumerKey, dict[str, float]] = {}
    for holder in holders:
        key = ConsumerKey(holder.consumer_kind or POD, holder.consumer)
        part = stated_part(holder, slot)
        if slot.sharing == "exclusive":
            parts[key] = max(parts.get(key, Fraction(0)), min(part, Fraction(1)))
        else:
            parts[key] = parts.get(key, Fraction(0)) + part
        given = containers.setdefault(key, {})
        given[holder.container] = given.get(holder.container, 0) + max(holder.slots, 1)
        percentage = stated_percentage(holder, slot)
        if percentage is not None:
            percentages.setdefault(key, {})[holder.container] = percentage
    entitlements = [
        Entitlement(
            key,
            0,
            tuple(sorted(containers[key].items())),
            tuple(sorted(percentages.get(key, {}).items())),
        )
        for key in sorted(parts)
    ]
    return entitled(entitlements, parts, exclusive=slot.sharing == "exclusive")


def _says_more(holder: Holder, slot: Slot) -> bool:
    """Whether something else than its slots says what a holder is entitled to."""
    return holder.share_denominator > 0 or slot.sharing == "fractional"


def _has_all(holder: Holder, slot: Slot) -> bool:
    if _says_more(holder, slot):
        return stated_part(holder, slot) >= 1
    return holder.slots >= slot.replicas


def _by_slots(holders: Iterable[Holder], replicas: int) -> Holding:
    """The holding of a device of ``replicas`` slots of which holders have some, as ``entitled`` has it."""
    slots: dict[ConsumerKey, int] = {}
    containers: dict[ConsumerKey, dict[str, int]] = {}
    percentages: dict[ConsumerKey, dict[str, float]] = {}
    for holder in holders:
        key = ConsumerKey(holder.consumer_kind or POD, holder.consumer)
        slots[key] = slots.get(key, 0) + holder.slots
        given = containers.setdefault(key, {})
        given[holder.container] = given.get(holder.container, 0) + max(holder.slots, 1)
        if holder.mps_percentage is not None:
            percentages.setdefault(key, {})[holder.container] = holder.mps_percentage
    booked = sum(slots.values())
    whole = max(booked, replicas)
    denominator = lcm(1, *(whole // gcd(own, whole) for own in slots.values()))
    found = tuple(
        Entitlement(
            key,
            slots[key] * denominator // whole,
            tuple(sorted(containers[key].items())),
            tuple(sorted(percentages.get(key, {}).items())),
        )
        for key in sorted(slots)
    )
    return Holding(found, denominator, overbooked=booked > replicas)


def entitled(
    entitlements: Iterable[Entitlement], parts: Mapping[ConsumerKey, Fraction], exclusive: bool
) -> Holding:
    """The holding in which each holder has its part; what sums above 1 is divided by its sum."""
    whole = sum(parts.values(), Fraction(0))
    if whole > 1:
        parts = {key: part / whole for key, part in parts.items()}
    denominator = lcm(1, *(part.denominator for part in parts.values()))
    found = tuple(item._replace(weight=int(parts[item.consumer] * denominator)) for item in entitlements)
    return Holding(found, denominator, overbooked=whole > 1 and not exclusive)


def stated_part(holder: Holder, slot: Slot) -> Fraction:
    """What a holder is entitled to of a device: its stated share, else its memory limit's part of a device
    that is given out in fractions, else its slots'."""
    if holder.share_denominator > 0:
        return Fraction(holder.share_numerator, holder.share_denominator)
    limit = holder.memory_limit_bytes
    if slot.sharing == "fractional" and limit is not None and slot.memory_total_bytes > 0:
        return Fraction(min(max(limit, 0), slot.memory_total_bytes), slot.memory_total_bytes)
    return Fraction(holder.slots, slot.replicas)


def stated_percentage(holder: Holder, slot: Slot) -> float | None:
    """Part of the SMs that a holder's processes may use, in percent, where one is stated. A stated share of
    a device that is given out in fractions is a limit on its cores; one of memory is none."""
    if holder.mps_percentage is not None:
        return holder.mps_percentage
    if slot.sharing == "fractional" and holder.share_denominator > 0:
        return min(100.0, 100 * holder.share_numerator / holder.share_denominator)
    return None
