"""Breaches as the budgets application writes them, on a real topic."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed
from gpuledger.contract.records import Breach, BreachDriver

NANO = 1_000_000_000
HOUR_NS = 3_600_000_000_000


def breach(breach_id: str, change: int = 1, state: str = "firing", **fields: Any) -> Breach:
    """A breach of 80 % of a budget of 100 EUR; fields as in the record."""
    now_ns = time.time_ns()
    known: dict[str, Any] = {
        "budget_id": "team-a-monthly",
        "budget_version": 3,
        "threshold_ppm": 800_000,
        "spent_nano": 80 * NANO,
        "amount_nano": 100 * NANO,
        "currency": "EUR",
        "period_start_ns": now_ns - 24 * HOUR_NS,
        "period_end_ns": now_ns + 24 * HOUR_NS,
        "since_ns": now_ns - 10 * NANO,
        "window_start_ns": now_ns - 20 * NANO,
        "drivers": [BreachDriver("pod", "ml", "train-0", 50 * NANO, 4 * HOUR_NS)],
        "message": "team-a has spent 80 % of team-a-monthly",
        "link": "https://ledger.example/breaches/1",
    }
    return Breach(id=breach_id, change=change, state=state, **(known | fields))


def publish_breaches(bus: BusSettings, topic: str, breaches: Iterable[Breach]) -> None:
    """Send them and await them, keyed by their ids."""
    registry = SchemaRegistry(bus)
    with Producer(bus, "test") as producer:
        producer.produce_all(Outgoing(topic, one.id.encode(), framed(registry, one)) for one in breaches)
    registry.close()
