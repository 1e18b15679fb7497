-- Hours whose windows changed since their sums were stored. A writer marks an hour `dirty` before it
-- publishes the head of a window in it, with a number that grows for each writer (ns since the Unix epoch),
-- and `clean` with the number that it had read before it took the new sums. Dirty above clean, for any
-- writer: `charges_hourly` sums that hour's windows itself. So a crash between any two steps shows nothing
-- twice and loses nothing.
CREATE TABLE IF NOT EXISTS charge_hour_marks
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    writer LowCardinality(String),
    dirty SimpleAggregateFunction(max, UInt64),
    clean SimpleAggregateFunction(max, UInt64)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, node, hour, writer)
SETTINGS non_replicated_deduplication_window = 1000;
