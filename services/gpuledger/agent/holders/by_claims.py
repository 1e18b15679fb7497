"""Who holds which device by a resource claim (dynamic resource allocation), and how much of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.claim_status import MPS, STRATEGIES, Allotment, Allotments
from gpuledger.agent.holders.claims import ClaimTarget, Slices, target_of
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice

CORES = ("cores", "multiprocessors")  # what kernels run on: HAMi's driver counts in percent, NVIDIA's in SMs
MEMORY = "memory"
PARTS = 100_000  # shares are told in these
_NOTHING = Allotment()


@dataclass(frozen=True)
class Claims:
    """What is known of the claims of a node. ``users``: how many containers have each of their devices."""

    slices: Slices
    allotments: Allotments
    users: Counter[ClaimDevice]

    def said(self, claim: ClaimDevice) -> Allotment:
        """What its status says; nothing where that is not known."""
        return self.allotments.get(claim, _NOTHING)


def users_of(allocations: Iterable[Allocation]) -> Counter[ClaimDevice]:
    """How many containers have each device of a claim: several with one claim have it together."""
    return Counter(device for allocation in allocations for device in set(allocation.claims))


def held_by_claims(
    allocation: Allocation, consumer: str, claims: Claims, stated_threads: float | None = None
) -> Iterator[HeldDevice]:
    """What the claims of a container give it; a device that it may only look at is none of it.
    ``stated_threads``: the percentage that its own environment says, which can only lower what MPS allows."""
    given: dict[tuple[str, ClaimTarget], list[ClaimDevice]] = {}
    for claim in dict.fromkeys(allocation.claims):
        target = target_of(claim, claims.slices)
        if target is not None and not claims.said(claim).admin:
            given.setdefault((claim.driver, target), []).append(claim)
    for (driver, target), parts in given.items():
        mps = [said for said in map(claims.said, parts) if said.sharing == STRATEGIES[MPS]]
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
            mps_percentage=_threads(mps, stated_threads),
            memory_limit_bytes=memory or next((said.memory_bytes for said in mps), None),
            instance=target.instance,
        )


def sharing_by_claims(claims: Claims) -> tuple[DeviceSharing, ...]:
    """The devices of which claims have stated amounts, in as many slots as there are shares; and those whose
    claims say how the containers share them that have one together, each in a slot."""
    shares: dict[DeviceRef, set[ClaimDevice]] = {}
    for claim in claims.users:
        target = target_of(claim, claims.slices)
        if target is not None and target.instance is None and not claims.said(claim).admin:
            shares.setdefault(target.ref, set()).add(claim)
    found = []
    for ref, parts in shares.items():
        said = [claims.said(claim) for claim in sorted(parts, key=astuple)]
        ways = [one.sharing for one in said if one.sharing]
        if any(one.consumed for one in said):
            found.append(DeviceSharing(ref, "fractional", len(parts)))
        elif ways:
            found.append(DeviceSharing(ref, ways[0], sum(claims.users[claim] for claim in parts)))
    return tuple(found)


def _threads(mps: Sequence[Allotment], stated: float | None) -> float | None:
    """The percentage of the threads that a client of MPS may use; None for who is none."""
    if not mps:
        return None
    limits = (stated, *(said.threads for said in mps))
    return min([100.0, *(limit for limit in limits if limit is not None)])


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
    return claims.said(claim).consumed.get(capacity, 0.0) / max(claims.users[claim], 1)
