-- Policy `idle: cluster`: what the pool's rows hold unallocated is carried by the consumers of the cluster, by
-- what each used in that hour. `carried` is to be added to what the consumer pays; the pool's row takes the
-- same away, so that the sum is 0. Hours that are over, and in which nobody used anything the pool keeps. Parts
-- are differences of rounded running sums, so they sum to the nano-unit. Time likewise, by used time.
CREATE OR REPLACE VIEW cluster_idle AS
WITH
    spread AS
    (
        SELECT *
        FROM charges_hourly
        WHERE has(splitByChar('/', toString(policy)), 'idle=cluster')
            AND hour <= now() - INTERVAL 1 HOUR - INTERVAL 2 MINUTE
    ),
    pool AS
    (
        SELECT
            cluster, hour, currency, any(team) AS team, any(cost_centre) AS cost_centre,
            ifNull(sum(toInt256(toDecimal256(s.unallocated, 9) * 1000000000)), 0) AS nano,
            sum(s.unallocated_ns) AS ns
        FROM spread AS s
        WHERE consumer_kind = 'pool'
        GROUP BY cluster, hour, currency
    ),
    users AS
    (
        SELECT
            cluster, hour, currency, consumer_kind, consumer, namespace, pod, workload, team, cost_centre,
            ifNull(sum(toInt256(toDecimal256(s.used, 9) * 1000000000)), 0) AS nano,
            sum(s.used_ns) AS ns
        FROM spread AS s
        WHERE consumer_kind != 'pool' AND s.used_ns > 0
        GROUP BY cluster, hour, currency, consumer_kind, consumer, namespace, pod, workload, team, cost_centre
    ),
    placed AS
    (
        SELECT
            *,
            sum(u.nano) OVER before AS nano_through,
            sum(u.ns) OVER before AS ns_through,
            sum(u.nano) OVER whole AS nano_of_all,
            sum(u.ns) OVER whole AS ns_of_all
        FROM users AS u
        WINDOW
            whole AS (PARTITION BY cluster, hour, currency),
            before AS
            (
                PARTITION BY cluster, hour, currency
                ORDER BY consumer_kind, consumer, namespace, pod, workload, team, cost_centre
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
    ),
    carried AS
    (
        SELECT
            u.*, p.team AS pool_team, p.cost_centre AS pool_cost_centre,
            if(nano_of_all = 0, 0,
                intDiv(p.nano * nano_through, nano_of_all) - intDiv(p.nano * (nano_through - u.nano), nano_of_all)
            ) AS carried_nano,
            toInt64(intDiv(toInt256(p.ns) * ns_through, ns_of_all) - intDiv(toInt256(p.ns) * (ns_through - u.ns), ns_of_all))
                AS part_ns
        FROM placed AS u
        INNER JOIN pool AS p USING (cluster, hour, currency)
    )
SELECT
    cluster, hour, consumer_kind, consumer, namespace, pod, workload, team, cost_centre, currency,
    CAST(toDecimal256(carried_nano, 9) / 1000000000, 'Decimal(38, 9)') AS carried,
    part_ns AS carried_ns
FROM carried
UNION ALL
SELECT
    cluster, hour, 'pool', '', '', '', '', any(pool_team), any(pool_cost_centre), currency,
    CAST(-toDecimal256(sum(carried_nano), 9) / 1000000000, 'Decimal(38, 9)'),
    -sum(part_ns)
FROM carried
GROUP BY cluster, hour, currency;
