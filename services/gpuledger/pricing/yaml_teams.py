"""What a team map looks like in YAML; docs/teams.md explains it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

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


class TeamsDocument(Strict):
    """``kind: teams``."""

    kind: Literal["teams"]
    default_team: str = ""
    rules: list[TeamRuleModel] = Field(default_factory=list)
