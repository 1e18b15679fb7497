"""One node with a claim, instants of its life, and a place for what is stated of it."""

from __future__ import annotations

from typing import Any

from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.contract.records import NodeLifetime
from gpuledger.inventory.lives import LifeKey
from gpuledger.kube import parse_time_ns

S = 1_000_000_000
W = 10 * S
CREATED = parse_time_ns("2025-11-05T09:00:00Z")
assert CREATED is not None
LAUNCHED = parse_time_ns("2025-11-05T08:58:30Z")
NOW = CREATED + 3600 * S
KEY = LifeKey("node-a", "i-0abc")


def claim(
    uid: str = "c-uid", provider: str = "aws:///eu-west-1a/i-0abc", node: str = "node-a"
) -> dict[str, Any]:
    launched = {"type": "Launched", "status": "True", "lastTransitionTime": "2025-11-05T08:58:30Z"}
    return {
        "metadata": {"uid": uid, "name": f"claim-{uid}", "creationTimestamp": "2025-11-05T08:58:00Z"},
        "status": {"providerID": provider, "nodeName": node, "conditions": [launched]},
    }


def book(*lives: NodeLifetime) -> dict[LifeKey, NodeLifetime]:
    return {LifeKey(life.node, life.layout.instance_id): life for life in lives}


class Shelf:
    """Statements in memory, which can be away."""

    def __init__(self) -> None:
        self.lives: dict[LifeKey, NodeLifetime] = {}
        self.away = False

    def read(self) -> dict[LifeKey, NodeLifetime]:
        return dict(self.lives)

    def write(self, lives: list[NodeLifetime]) -> None:
        if self.away:
            raise KafkaUnavailable("away")
        self.lives.update(book(*lives))
