"""Every metric of the processor, with its unit."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

RECORDS_READ = Counter("gpuledger_processor_records_read", "Records of gpu.telemetry read, held or not")
RECORDS_REFUSED = Counter(
    "gpuledger_processor_records_refused", "Records sent to dead letters, by reason", ["reason"]
)
EVENTS_CHARGED = Counter("gpuledger_processor_events_charged", "Raw events in windows charged")
WINDOWS_CHARGED = Counter(
    "gpuledger_processor_windows_charged", "Windows computed, restated ones included", ["state"]
)
RECORDS_FETCHED = Counter(
    "gpuledger_processor_records_fetched", "Records read again for windows that were reopened"
)
RECORDS_LOST = Counter(
    "gpuledger_processor_records_lost", "Offsets that retention took before they were read", ["partition"]
)
WINDOWS_SKIPPED = Counter(
    "gpuledger_processor_windows_skipped", "Windows of a node's life that were too old to be charged"
)
CONSERVATION_ERRORS = Counter(
    "gpuledger_processor_conservation_errors", "Windows whose rows do not add up to their cost; must be 0"
)
CORE_ERRORS = Counter("gpuledger_processor_core_errors", "Windows that the core could not charge")
RECORDS_HELD = Gauge("gpuledger_processor_records_held", "Records read and not finished", ["partition"])
ACKNOWLEDGED_OFFSET = Gauge(
    "gpuledger_processor_acknowledged_offset", "Offset below which all is finished", ["partition"]
)
CAUGHT_UP_SECONDS = Gauge(
    "gpuledger_processor_caught_up_timestamp_seconds",
    "Broker time up to which the partition has been read, Unix seconds",
    ["partition"],
)
PARTITIONS_OWNED = Gauge("gpuledger_processor_partitions_owned", "Partitions owned")
PARTITIONS_LOADING = Gauge(
    "gpuledger_processor_partitions_loading",
    "Partitions owned of which older rows are still read; what needs them waits",
)
ROUND_SECONDS = Histogram(
    "gpuledger_processor_round_seconds",
    "Seconds from a poll to its acknowledgement",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
ROW_LATENCY_SECONDS = Histogram(
    "gpuledger_processor_row_latency_seconds",
    "Seconds from the last record's arrival at the broker to the charges' arrival",
    buckets=(0.1, 0.2, 0.5, 1, 2, 5, 10, 60),
)
