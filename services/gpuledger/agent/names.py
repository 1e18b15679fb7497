"""What pods and containers are called, as far as anybody has told."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.agent.holders.source import Holders
from gpuledger.contract.records import Pod


@dataclass(frozen=True)
class Names:
    """What pods and containers are called: as ``now`` says, and where that does not, as ``latest`` does."""

    now: Holders | None = None
    latest: Holders | None = None

    def pod(self, uid: str) -> Pod | None:
        """The pod of that uid; None where its name is not known."""
        return next((h.pod_of[uid] for h in (self.now, self.latest) if h and uid in h.pod_of), None)

    def container(self, container_id: str) -> str:
        """The name of a container; empty where it is not known."""
        known = (h.container_names.get(container_id, "") for h in (self.now, self.latest) if h)
        return next(filter(None, known), "")

    def same(self, before: Names) -> bool:
        """Whether nobody has told of anything since."""
        return self.now is before.now and self.latest is before.latest
