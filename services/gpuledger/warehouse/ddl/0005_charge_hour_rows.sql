-- Stored sums of whole hours. `version` ranks the state of the hour's windows that the sums were taken
-- from: (count of windows) * 2^96 + sum of their revisions. Revisions and counts only grow, so a greater
-- version is a later state, and an equal version has equal rows. Hours outlive their windows: when those
-- expire, the count falls, and a recomputation from what is left loses.
CREATE TABLE IF NOT EXISTS charge_hour_rows
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    version UInt128 CODEC(ZSTD(1)),
    device LowCardinality(String),
    consumer_kind LowCardinality(String),
    consumer LowCardinality(String),
    container LowCardinality(String),
    reason LowCardinality(String),
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
    currency LowCardinality(String),
    policy LowCardinality(String),
    price_ids LowCardinality(String),
    evidence LowCardinality(String),
    booking_period LowCardinality(String),

    windows UInt64,
    windows_ns Int64,
    used_ns Int64,
    held_idle_ns Int64,
    unallocated_ns Int64,
    unobserved_ns Int64,
    total_ns Int64,
    unpriced_ns Int64,
    effectively_used_ns Nullable(Int64),
    borrowed_ns Int64,
    used Nullable(Decimal(38, 9)),
    held_idle Nullable(Decimal(38, 9)),
    unallocated Nullable(Decimal(38, 9)),
    unobserved Nullable(Decimal(38, 9)),
    total Nullable(Decimal(38, 9)),
    effectively_used Nullable(Decimal(38, 9)),
    borrowed Nullable(Decimal(38, 9)),
    busy_ns Int64,
    launches Int64,
    launched_threads Int64,
    bytes_h2d Int64,
    bytes_d2h Int64,
    bytes_d2d Int64,
    memory_peak_bytes Int64,
    memory_byte_seconds Nullable(Float64),
    synchronize_wait_ns Int64,
    api_errors Int64,
    entitlement Nullable(Float64),
    sm_active Nullable(Float64),
    sm_occupancy Nullable(Float64),
    tensor_active Nullable(Float64),
    dram_active Nullable(Float64),
    framebuffer_used_bytes Nullable(Float64),
    completeness Nullable(Float64),
    energy_joules Nullable(Float64),
    xid Int64,
    confidence_low_ns Int64,
    confidence_high_ns Int64,
    lost_events Int64,
    flags Int64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY
(
    cluster, node, hour, version, device, consumer_kind, consumer, container, reason,
    state, region, zone, instance_type, capacity_type, parent_uuid, gpu_model, mig_profile, sharing,
    namespace, pod, workload, team, cost_centre, currency, policy, price_ids, evidence, booking_period
)
PRIMARY KEY (cluster, node, hour, version)
SETTINGS non_replicated_deduplication_window = 1000;
