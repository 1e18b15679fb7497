-- Which version of each hour's stored sums holds: the greatest; written after all of its rows are in.
CREATE TABLE IF NOT EXISTS charge_hours
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    version UInt128 CODEC(ZSTD(1)),
    windows UInt64,
    rows UInt32
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, node, hour)
SETTINGS non_replicated_deduplication_window = 1000;
