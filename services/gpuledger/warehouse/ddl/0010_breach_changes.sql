-- Each change in the life of each breach, as gpu.breaches has it. A change that comes twice collapses into one:
-- read the view `breaches`. Money is in units of `currency`, NULL for a budget in GPU time; an instant that is
-- not known is NULL. Drivers are five workloads, then five pods, in arrays of one length. Few, and kept for good.
CREATE TABLE IF NOT EXISTS breach_changes
(
    id String,
    change UInt32,
    state LowCardinality(String),
    previous_state LowCardinality(String),
    why String,
    at DateTime64(3, 'UTC'),
    budget_id LowCardinality(String),
    budget_name LowCardinality(String),
    budget_version Int32,
    scope Map(LowCardinality(String), String),
    rule LowCardinality(String),
    speed LowCardinality(String),
    threshold_ppm Int64,
    factor_nano Int64,
    spent Nullable(Decimal(38, 9)),
    amount Nullable(Decimal(38, 9)),
    currency LowCardinality(String),
    spent_gpu_ns Nullable(Int64),
    amount_gpu_ns Nullable(Int64),
    period_start DateTime64(3, 'UTC'),
    period_end DateTime64(3, 'UTC'),
    since DateTime64(3, 'UTC'),
    window_start DateTime64(3, 'UTC'),
    forecast_low Nullable(DateTime64(3, 'UTC')),
    forecast_high Nullable(DateTime64(3, 'UTC')),
    driver_kind Array(String),
    driver_namespace Array(String),
    driver_name Array(String),
    driver_money Array(Decimal(38, 9)),
    driver_gpu_ns Array(Int64),
    message String,
    link String,
    acknowledged_by String,
    acknowledged_until Nullable(DateTime64(3, 'UTC')),
    silenced_by String,
    silenced_until Nullable(DateTime64(3, 'UTC')),
    received_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (id, change)
SETTINGS non_replicated_deduplication_window = 1000;
