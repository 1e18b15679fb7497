"""A recommendation: what was seen, what to change, what that saves, and what may go wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuledger.recommend.evidence import KeptBy
from gpuledger.recommend.saving import Saving
from gpuledger.spend import Span


@dataclass(frozen=True)
class Recommendation:
    """One change for one subject (a workload, a node, a GPU).

    ``evidence`` is the time that it rests on. ``manifests`` maps file names to YAML that is ready to apply.
    ``instead_of`` names rules that would change the same subject: they are alternatives, not to be added up.
    ``kept_by``: of a node, the pods without GPUs that keep it.
    """

    rule: str
    subject: str
    team: str
    evidence: Span
    finding: str
    change: str
    risk: str
    saving: Saving
    currency: str
    manifests: Mapping[str, str] = field(default_factory=dict)
    instead_of: tuple[str, ...] = ()
    kept_by: Sequence[KeptBy] = ()
