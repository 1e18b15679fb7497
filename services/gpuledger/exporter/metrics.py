"""What the exporter says of itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

REGISTRY = CollectorRegistry()
WAREHOUSE_UP = Gauge(
    "gpuledger_exporter_warehouse_up",
    "1 where the last query was answered, else 0",
    registry=REGISTRY,
)
QUERY_SECONDS = Gauge("gpuledger_exporter_query_seconds", "How long the last query took", registry=REGISTRY)
ANSWERED = Gauge(
    "gpuledger_exporter_answered_timestamp_seconds",
    "When the warehouse last answered, Unix seconds; 0 for never",
    registry=REGISTRY,
)
