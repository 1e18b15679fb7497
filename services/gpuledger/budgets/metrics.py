"""Every metric of the budgets application, with its unit."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SETS_COUNTED = Counter("gpuledger_budgets_sets_counted", "Records of gpu.charges that were counted")
RECORDS_REFUSED = Counter("gpuledger_budgets_records_refused", "Records sent to dead letters")
WINDOWS_ASKED = Counter(
    "gpuledger_budgets_windows_asked", "Restated windows of which the warehouse was asked"
)
CHANGES_TOLD = Counter("gpuledger_budgets_changes_told", "Changes of breaches told, by state", ["state"])
PARTITIONS_OWNED = Gauge("gpuledger_budgets_partitions_owned", "Partitions of gpu.charges owned")
CAUGHT_UP_SECONDS = Gauge(
    "gpuledger_budgets_caught_up_timestamp_seconds",
    "Broker time up to which the charges of the partition are counted, Unix seconds",
    ["partition"],
)
BACKFILLS_WAITING = Gauge(
    "gpuledger_budgets_backfills_waiting",
    "Meters (budgets, and rules for idle money) whose time before their version is not counted yet",
)
WAITS = Gauge("gpuledger_budgets_waits", "1: Kafka, the registry or the warehouse is away, and is waited for")
