"""Every metric of the archiver."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
RECORDS = Counter("gpuledger_archive_records", "Records in committed files", ["topic"], registry=REGISTRY)
COMMITS = Counter("gpuledger_archive_commits", "Commits of the manifest", ["topic"], registry=REGISTRY)
LOST = Counter(
    "gpuledger_archive_lost_offsets",
    "Offsets that Kafka's retention took before they were archived",
    ["topic"],
    registry=REGISTRY,
)
AWAY = Gauge(
    "gpuledger_archive_away", "1 while the last attempt found Kafka or the store away", registry=REGISTRY
)
