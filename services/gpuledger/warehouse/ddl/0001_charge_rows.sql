-- Every row of every charge set that came in, also of revisions that lost since: read the view `charges`.
-- The key holds the revision, so the sets of two revisions never mix, and a set that comes twice (equal
-- revision, equal bytes) collapses into one. The partition is a function of the key: rows of one window
-- never lie in two partitions. Money is in units of `currency`, NULL where nothing of the row has a price;
-- a measured value that is missing is NULL, never 0. GPU time is in ns of whole-device time.
CREATE TABLE IF NOT EXISTS charge_rows
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    window_start DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    revision UInt64 CODEC(ZSTD(1)),
    device LowCardinality(String),
    consumer_kind LowCardinality(String),
    consumer LowCardinality(String),
    container LowCardinality(String),
    reason LowCardinality(String),

    window_length_ns Int64,
    state LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    instance_type LowCardinality(String),
    capacity_type LowCardinality(String),
    parent_uuid LowCardinality(String),
    gpu_model LowCardinality(String),
    mig_profile LowCardinality(String),
    sharing LowCardinality(String),
    namespace LowCardinality(String),
    pod LowCardinality(String),
    workload LowCardinality(String),
    team LowCardinality(String),
    cost_centre LowCardinality(String),

    used_ns Int64 CODEC(ZSTD(1)),
    held_idle_ns Int64 CODEC(ZSTD(1)),
    unallocated_ns Int64 CODEC(ZSTD(1)),
    unobserved_ns Int64 CODEC(ZSTD(1)),
    unpriced_ns Int64 CODEC(ZSTD(1)),
    effectively_used_ns Nullable(Int64) CODEC(ZSTD(1)),
    borrowed_ns Int64 CODEC(ZSTD(1)),
    used Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    held_idle Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    unallocated Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    unobserved Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    effectively_used Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    borrowed Nullable(Decimal(38, 9)) CODEC(ZSTD(1)),
    currency LowCardinality(String),
    entitlement Nullable(Float64) CODEC(ZSTD(1)),
    policy LowCardinality(String),
    price_ids LowCardinality(String),

    busy_ns Int64 CODEC(ZSTD(1)),
    launches Int64 CODEC(ZSTD(1)),
    launched_threads Int64 CODEC(ZSTD(1)),
    bytes_h2d Int64 CODEC(ZSTD(1)),
    bytes_d2h Int64 CODEC(ZSTD(1)),
    bytes_d2d Int64 CODEC(ZSTD(1)),
    memory_peak_bytes Int64 CODEC(ZSTD(1)),
    memory_byte_seconds Nullable(Float64) CODEC(ZSTD(1)),
    synchronize_wait_ns Int64 CODEC(ZSTD(1)),
    api_errors Int64 CODEC(ZSTD(1)),

    sm_active Nullable(Float64) CODEC(ZSTD(1)),
    sm_occupancy Nullable(Float64) CODEC(ZSTD(1)),
    tensor_active Nullable(Float64) CODEC(ZSTD(1)),
    dram_active Nullable(Float64) CODEC(ZSTD(1)),
    framebuffer_used_bytes Nullable(Float64) CODEC(ZSTD(1)),
    energy_joules Nullable(Float64) CODEC(ZSTD(1)),
    xid Int64 CODEC(ZSTD(1)),

    evidence LowCardinality(String),
    confidence_low_ns Int64 CODEC(ZSTD(1)),
    confidence_high_ns Int64 CODEC(ZSTD(1)),
    completeness Nullable(Float64) CODEC(ZSTD(1)),
    lost_events Int64 CODEC(ZSTD(1)),
    flags Int64 CODEC(ZSTD(1)),
    booking_period LowCardinality(String),

    received_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(window_start)
ORDER BY (cluster, node, window_start, revision, device, consumer_kind, consumer, container, reason)
-- A window that is restated late is kept as long as a fresh one.
TTL toDateTime(greatest(window_start, received_at)) + INTERVAL 35 DAY
-- An insert of the sink makes one file, not two for each of 65 columns; merged parts are wide.
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000, min_bytes_for_wide_part = 67108864;
