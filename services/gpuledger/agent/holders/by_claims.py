"""Who holds which device by a resource claim (dynamic resource allocation), and how much of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.claim_status import Allotments
from gpuledger.agent.holders.claims import ClaimTarget, Slices, target_of
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice

CORES = ("cores", "multiprocessors")  # what kernels run on: HAMi's driver counts in percent, NVIDIA's in SMs
MEMORY = "memory"
PARTS = 100_000  # shares are told in these


@dataclass(frozen=True)
class Claims:
    """What is known of the claims of a node. ``users``: how many containers have each of their devices."""

    slices: Slices
    allotments: Allotments
    users: Counter[ClaimDevice]


def users_of(allocations: Iterable[Allocation]) -> Counter[ClaimDevice]:
    """How many containers have each device of a claim: several with one claim have it together."""
    return Counter(device for allocation in allocations for device in set(allocation.claims))


def held_by_claims(allocation: Allocation, consumer: str, claims: Claims) -> Iterator[HeldDevice]:
    """What the claims of a container give it; a device that it may only look at is none of it."""
    given: dict[tuple[str, ClaimTarget], list[ClaimDevice]] = {}
    for claim in dict.fromkeys(allocation.claims):
        target, said = target_of(claim, claims.slices), claims.allotments.get(claim)
        if target is not None and (said is None or not said.admin):
            given.setdefault((claim.driver, target), []).append(claim)
    for (driver, target), parts in given.items():
        share = min(round(PARTS * sum(_cores(claim, claims) for claim in parts)), PARTS)
        memory = round(sum(_consumed(claim, MEMORY, claims) for claim in parts))
        yield HeldDevice(
            consumer=consumer,
            device=target.ref,
            container=allocation.container,
            resource_name=driver,
            slots=len({claim.share for claim in parts}),
            share_numerator=share,
            share_denominator=PARTS if share else 0,
            memory_limit_bytes=memory or None,
            instance=target.instance,
        )


def sharing_by_claims(claims: Claims) -> tuple[DeviceSharing, ...]:
    """The devices of which claims have stated amounts."""
    shares: dict[DeviceRef, set[ClaimDevice]] = {}
    stated = set()
    for claim in claims.users:
        target, said = target_of(claim, claims.slices), claims.allotments.get(claim)
        if target is None or target.instance is not None or (said is not None and said.admin):
            continue
        shares.setdefault(target.ref, set()).add(claim)
        if said is not None and said.consumed:
            stated.add(target.ref)
    return tuple(
        DeviceSharing(ref, "fractional", len(parts)) for ref, parts in shares.items() if ref in stated
    )


def _cores(claim: ClaimDevice, claims: Claims) -> float:
    """The part of the device's cores; 0 where nothing says it."""
    known = claims.slices.get((claim.driver, claim.pool, claim.device))
    capacities = known.capacities if known is not None else {}
    for name in CORES:
        if capacities.get(name, 0.0) > 0.0:
            return _consumed(claim, name, claims) / capacities[name]
    return 0.0


def _consumed(claim: ClaimDevice, capacity: str, claims: Claims) -> float:
    """What one of the containers that have it together has of an amount; 0 where the status names none."""
    said = claims.allotments.get(claim)
    return 0.0 if said is None else said.consumed.get(capacity, 0.0) / max(claims.users[claim], 1)
