"""What a team map looks like in YAML; docs/teams.md explains it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gpuledger.pricing.currencies import FOREVER_NS
from gpuledger.pricing.yaml_values import Id, Minute, Strict


class TeamMatch(Strict):
    """Which consumers a rule is for; what is left out is any. A namespace or owner name may end in ``*``."""

    cluster: str = ""
    namespace: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_kind: str = ""
    owner_name: str = ""
    node_pool: str = ""
    consumer_kind: Literal["", "pod", "host_process", "slurm_job", "systemd", "container", "pool"] = ""


class TeamRuleModel(Strict):
    """A rule: a team by name, or by the value of a pod label."""

    id: Id
    team: str = ""
    from_label: str = ""
    cost_centre: str = ""
    match: TeamMatch = TeamMatch()
    priority: int = Field(default=0, ge=-1000, le=1000)
    effective_from: Minute = 0
    effective_to: Minute | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TeamRuleModel:
        if bool(self.team) == bool(self.from_label):
            raise ValueError("give either team or from_label")
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        return self


class PolicyModel(Strict):
    """How idle and borrowed time is shared out; docs/policies.md shows each setting."""

    id: Id
    cluster: str = ""
    burst: Literal["pay", "reserved_first"] = "pay"
    entitlement: Literal["slots", "max(slots,memory)"] = "slots"
    mig: Literal["slices", "dominant"] = "slices"
    idle: Literal["holders", "pool", "cluster"] = "holders"
    effective_from: Minute = 0
    effective_to: Minute | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PolicyModel:
        if self.effective_to is not None and self.effective_to <= self.effective_from:
            raise ValueError("effective_to is not after effective_from")
        if self.burst == "reserved_first" and self.idle != "holders":
            raise ValueError(f"idle: {self.idle} does not go with burst: reserved_first")
        return self

    def meets(self, other: PolicyModel) -> bool:
        """Whether both would hold for a cluster at one instant."""
        ends = [one.effective_to if one.effective_to is not None else FOREVER_NS for one in (self, other)]
        begins = max(self.effective_from, other.effective_from)
        return self.cluster == other.cluster and begins < min(ends)


class TeamsDocument(Strict):
    """``kind: teams``."""

    kind: Literal["teams"]
    default_team: str = ""
    rules: list[TeamRuleModel] = Field(default_factory=list)
    policies: list[PolicyModel] = Field(default_factory=list)
