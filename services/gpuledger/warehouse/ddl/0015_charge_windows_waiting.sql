-- Heads that a generation restates, until all windows of its range in that hour are here: then the hour is
-- moved to charge_windows in one block, so that no query finds some of it as it was and some as it is.
CREATE TABLE IF NOT EXISTS charge_windows_waiting
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    window_start DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    revision UInt64 CODEC(ZSTD(1)),
    window_length_ns Int64,
    rows UInt32,
    state LowCardinality(String),
    generation UInt16,
    inputs UInt32,
    core_version UInt8,
    price_version Int32,
    team_version Int32,
    booking_period LowCardinality(String),
    telemetry_partition Int32,
    offset_starts Array(Int64),
    offset_counts Array(Int64),
    completeness Nullable(Float64),
    lost_events Int64,
    received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(window_start)
ORDER BY (cluster, node, window_start)
TTL toDateTime(greatest(window_start, received_at)) + INTERVAL 35 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000;
