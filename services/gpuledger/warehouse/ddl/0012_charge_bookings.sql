-- What is kept of hours of closed months that changed afterwards: `version` is the state of their stored sums
-- (charge_hour_rows) as it was booked when the months up to `through` were closed, and what it adds to the
-- state kept before it is booked in `booking_period`. Written once, before the first window that changes the
-- hour is seen; of writers that do so at the same time the least version is right, since states only grow.
CREATE TABLE IF NOT EXISTS charge_bookings
(
    cluster LowCardinality(String),
    node LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, ZSTD(1)),
    through LowCardinality(String),
    booking_period LowCardinality(String),
    version SimpleAggregateFunction(min, UInt128)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (cluster, node, hour, through, booking_period)
SETTINGS non_replicated_deduplication_window = 1000;
