-- Every revision of a window that came in, also after it was replaced: what it was priced with, and when it
-- came first. Budgets ask it what of a window they have counted; a set that is sent again, unchanged and
-- however late, leaves its first time. Filled by the two views that follow.
CREATE TABLE IF NOT EXISTS charge_revisions
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    window_start DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    revision UInt64 CODEC(ZSTD(1)),
    rows SimpleAggregateFunction(max, UInt32),
    price_version SimpleAggregateFunction(max, Int32),
    first_received_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)),
    last_received_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMMDD(window_start)
ORDER BY (cluster, node, window_start, revision)
TTL toDateTime(greatest(window_start, last_received_at)) + INTERVAL 35 DAY
SETTINGS ttl_only_drop_parts = 1;
