"""Every metric of the sink, with its unit in the name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"gpuledger_sink_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"gpuledger_sink_{name}", text, labels, registry=REGISTRY)


SETS = _counter("sets", "Charge sets that are in the warehouse and acknowledged")
ROWS = _counter("rows", "Charge rows of these sets")
BATCHES = _counter("batches", "Batches in which they were written")
READ_BYTES = _counter("read_bytes", "Bytes of the records read, refused ones included")
REFUSED = _counter("refused", "Records sent to dead letters, by reason", "reason")
REVOKED = _counter("revoked_partitions", "Partitions that went to another member of the group")
RETRIES = _counter("insert_retries", "Attempts to write that found ClickHouse away or overloaded")
INSERT_SECONDS = Histogram(
    "gpuledger_sink_insert_seconds",
    "Seconds that a batch took from its first insert to its last, attempts that failed included",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
WAREHOUSE_AWAY = _gauge("warehouse_away", "1 while the last attempt to write found ClickHouse away")
COMMITTED_OFFSET = _gauge("committed_offset", "Offset below which all is in and acknowledged", "partition")
LAG_RECORDS = _gauge("lag_records", "Records of the partition that are not acknowledged yet", "partition")
LAG_SECONDS = _gauge("lag_seconds", "Age of the oldest record read that is not in the warehouse; 0 with none")
