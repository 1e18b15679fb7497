"""Every metric of the inventory, with its unit."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
NODES = Gauge("gpuledger_inventory_nodes", "Node lives that are stated and have not ended", registry=REGISTRY)
STATEMENTS = Counter("gpuledger_inventory_statements", "Statements written to gpu.nodes", registry=REGISTRY)
SOURCE_OK = Gauge(
    "gpuledger_inventory_source_ok", "1 while the API server or the file can be read", registry=REGISTRY
)
KAFKA_OK = Gauge("gpuledger_inventory_kafka_ok", "1 while Kafka takes what is to be said", registry=REGISTRY)
