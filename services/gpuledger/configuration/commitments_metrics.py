"""Every metric of `gpuledger prices commitments --every`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
PUBLISHED = Counter(
    "gpuledger_commitments_published_minutes",
    "Minutes of which the ledger lacked what was committed to and not used",
    registry=REGISTRY,
)
DONE = Gauge(
    "gpuledger_commitments_done_timestamp_seconds",
    "When all commitments were last looked at, Unix seconds; 0 for never",
    registry=REGISTRY,
)
FAILED = Counter(
    "gpuledger_commitments_failed", "Looks that found Kafka, registry or warehouse away", registry=REGISTRY
)
