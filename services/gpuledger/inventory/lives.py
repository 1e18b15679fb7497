"""From what a cluster shows now and what was stated before to what has to be stated. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuledger.contract.records import NodeLayout, NodeLifetime
from gpuledger.inventory.objects import ClaimFacts, NodeFacts
from gpuledger.kube import instance_id

STATED_BY = "inventory"
AGAIN = "+"  # between an instance's id and the uid of the Node object with which it joined again
_KEPT = ("instance_type", "capacity_type", "region", "zone", "node_pool", "gpu_count", "devices")


class LifeKey(NamedTuple):
    """An instance of a node: what a statement is about."""

    node: str
    instance: str


Stated = Mapping[LifeKey, NodeLifetime]
"""The latest statement of each instance."""


@dataclass(frozen=True)
class Cluster:
    """The objects that are there, and when those that went were missed (by Node name and provider id)."""

    nodes: Sequence[NodeFacts] = ()
    claims: Sequence[ClaimFacts] = ()
    node_gone_ns: Mapping[str, int] = field(default_factory=dict)
    claim_gone_ns: Mapping[str, int] = field(default_factory=dict)


def statements(
    cluster: str, seen: Cluster, stated: Stated, length_ns: int, now_ns: int
) -> list[NodeLifetime]:
    """What is new: a node that launched, that turned out to be otherwise, or that ended.

    A node is paid for from the launch of its instance (its NodeClaim says it, else the Node object's making)
    until both its Node and its NodeClaim are gone: Karpenter removes the claim when the instance is. Nodes
    without a GPU are not stated. What was stated of a node stays while it lives, whatever its labels become.
    """
    claims = {claim.provider_id: claim for claim in seen.claims}
    found: list[NodeLifetime] = []
    living: set[LifeKey] = set()
    for node in seen.nodes:
        key = _key(node, stated)
        before = stated.get(key)
        living.add(key)
        if before is None and not node.has_gpus:
            continue
        launched = _launched(node, key, claims.get(node.provider_id))
        if before is not None and before.launched_ns is not None:
            # a first second that was told stands, unless the cloud's own time of it is earlier
            launched = min(before.launched_ns, launched or before.launched_ns)
        life = NodeLifetime(
            cluster=cluster,
            node=node.name,
            layout=_grown(node.layout, key.instance, before),
            launched_ns=launched,
            window_length_ns=length_ns,
            stated_by=STATED_BY,
            stated_ns=now_ns,
        )
        if before is None or replace(before, stated_ns=now_ns) != life:
            found.append(life)
    claimed = {instance_id(claim.provider_id) for claim in seen.claims}
    for key, before in sorted(stated.items()):
        if before.stated_by != STATED_BY or before.ended_ns is not None:
            continue
        if key in living or key.instance.partition(AGAIN)[0] in claimed:
            continue
        ended = _ended(key, before, seen, now_ns)
        found.append(replace(before, ended_ns=ended, stated_ns=now_ns))
    return found


def _key(node: NodeFacts, stated: Stated) -> LifeKey:
    """The instance's own id; with the object's uid where that instance was said to have ended: an end is
    never taken back, so a node that was deleted and joined again begins another life."""
    key = LifeKey(node.name, node.layout.instance_id)
    before = stated.get(key)
    if before is None or before.ended_ns is None:
        return key
    return LifeKey(node.name, f"{key.instance}{AGAIN}{node.uid}")


def _launched(node: NodeFacts, key: LifeKey, claim: ClaimFacts | None) -> int | None:
    if key.instance != node.layout.instance_id or claim is None or claim.launched_ns is None:
        return node.created_ns
    return claim.launched_ns if node.created_ns is None else min(claim.launched_ns, node.created_ns)


def _grown(layout: NodeLayout, instance: str, before: NodeLifetime | None) -> NodeLayout:
    """The layout; what it does not say any more stays as it was stated."""
    made = replace(layout, instance_id=instance)
    if before is not None:
        for name in _KEPT:
            setattr(made, name, getattr(made, name) or getattr(before.layout, name))
    return made


def _ended(key: LifeKey, before: NodeLifetime, seen: Cluster, now_ns: int) -> int:
    """When the last of its objects was missed; now, where it went while nobody looked."""
    times = [
        seen.node_gone_ns.get(key.node),
        *(at for provider, at in seen.claim_gone_ns.items() if instance_id(provider) == key.instance),
    ]
    known = [time for time in times if time is not None]
    ended = min(max(known), now_ns) if known else now_ns
    return max(ended, before.launched_ns or 0)
