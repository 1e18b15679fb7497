"""What a doctor says: facts, and whether all that is required is there."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """One fact. ``remedy`` says what to do where it is missing; ``required``: the agent does not run well
    without it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


@dataclass(frozen=True)
class Report:
    """All facts, in the order in which one would mend them."""

    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all that is required is there."""
        return all(check.ok or not check.required for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}
