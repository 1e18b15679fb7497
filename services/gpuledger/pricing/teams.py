"""Which team a consumer belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.contract.records import PolicyRule, TeamMapVersion, TeamRule

POLICY_SETTINGS = ("burst", "entitlement", "mig", "idle")
TEAM_LABEL = "team"  # the pod label that names the team where no rule does
HOST_TEAM = "(host)"  # processes outside Kubernetes that no rule claims; no namespace can have this name
POOL_TEAM = "(pool)"  # what nobody holds or nobody explains


class Team(NamedTuple):
    """Who pays."""

    team: str
    cost_centre: str = ""


@dataclass(frozen=True, slots=True)
class Consumer:
    """What a team rule may match, as it was at the consumer's first instant in the window."""

    kind: str = "pod"
    cluster: str = ""
    node_pool: str = ""
    namespace: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class TeamMap:
    """The team rules of one version.

    Of the rules that match, the one of highest priority wins, then the earlier in the document. Where none
    does: a map without rules takes the pod's label `team`; then the map's default team; then the pod's
    namespace. Processes outside Kubernetes are ``(host)`` and the pool is ``(pool)``, unless a rule names
    their consumer kind.
    """

    def __init__(self, version: TeamMapVersion) -> None:
        self.version = version.version
        self.active_from_ns = version.active_from_ns
        self.default_team = version.default_team
        order = sorted(range(len(version.rules)), key=lambda i: (-version.rules[i].priority, i))
        self.rules = tuple(version.rules[i] for i in order)
        self.policies = tuple(sorted(version.policies, key=lambda one: not one.cluster))
        ends = (rule.effective_to_ns for rule in version.rules)
        begins = (rule.effective_from_ns for rule in version.rules)
        self._changes_ns = sorted({at for at in (*begins, *ends) if at is not None})

    @staticmethod
    def empty() -> TeamMap:
        """The map of a cluster without rules."""
        found = TeamMap(TeamMapVersion(version=1, active_from_ns=0))
        found.version = 0
        return found

    def policy_of(self, cluster: str, at_ns: int) -> dict[str, str]:
        """The settings of ``policy_rule``; empty without."""
        rule = self.policy_rule(cluster, at_ns)
        return {} if rule is None else {name: getattr(rule, name) for name in POLICY_SETTINGS}

    def policy_rule(self, cluster: str, at_ns: int) -> PolicyRule | None:
        """The cluster's own policy at an instant, else the one for all clusters."""
        held = (one for one in self.policies if one.cluster in ("", cluster) and holds(one, at_ns))
        return next(held, None)

    def stretch(self, at_ns: int) -> int:
        """Number of the stretch of time around an instant in which the same rules are in force."""
        return bisect_right(self._changes_ns, at_ns)

    def team_of(self, consumer: Consumer, at_ns: int) -> Team:
        """The team of a consumer at an instant."""
        for rule in self.rules:
            if _applies(rule, consumer, at_ns):
                return Team(rule.team or consumer.labels.get(rule.label_key, ""), rule.cost_centre)
        if consumer.kind == "pool":
            return Team(POOL_TEAM)
        if not self.rules and consumer.labels.get(TEAM_LABEL):
            return Team(consumer.labels[TEAM_LABEL])
        if consumer.kind == "pod" and (self.default_team or consumer.namespace):
            return Team(self.default_team or consumer.namespace)
        return Team(self.default_team or HOST_TEAM if consumer.kind != "pod" else self.default_team)


def holds(rule: TeamRule | PolicyRule, at_ns: int) -> bool:
    """Whether a rule is in force at an instant."""
    return rule.effective_from_ns <= at_ns and (rule.effective_to_ns is None or at_ns < rule.effective_to_ns)


def _applies(rule: TeamRule, consumer: Consumer, at_ns: int) -> bool:
    if not holds(rule, at_ns):
        return False
    if consumer.kind == "pool" and rule.consumer_kind != "pool":
        return False
    if not rule.team and not consumer.labels.get(rule.label_key):
        return False
    return (
        rule.consumer_kind in ("", consumer.kind)
        and rule.cluster in ("", consumer.cluster)
        and rule.node_pool in ("", consumer.node_pool)
        and rule.owner_kind in ("", consumer.owner_kind)
        and fits(rule.namespace, consumer.namespace)
        and fits(rule.owner_name, consumer.owner_name)
        and has(rule.labels, consumer.labels)
        and has(rule.annotations, consumer.annotations)
    )


def fits(pattern: str, value: str) -> bool:
    """Whether a text is what a rule wants: anything, the same, or of the same beginning before its ``*``."""
    if pattern.endswith("*"):
        return value.startswith(pattern[:-1])
    return pattern in ("", value)


def has(wanted: Mapping[str, str], there: Mapping[str, str]) -> bool:
    """Whether all that a rule wants is there; an empty value is any."""
    return all(key in there and value in ("", there[key]) for key, value in wanted.items())
