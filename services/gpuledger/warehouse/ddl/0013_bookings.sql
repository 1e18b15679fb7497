-- What is booked in which month: what invoices are made from. An hour is booked in its own month. Of one that
-- changed after its month was closed, the state that was booked stays, and each later state is booked as its
-- difference to the one before (`correction` 1) in the month that was open then. So a closed month never
-- changes, and all months of an hour sum to what `charges_hourly` says of it.
CREATE OR REPLACE VIEW bookings AS
WITH
    kept AS
    (
        SELECT
            cluster, node, hour, through, booking_period, version,
            formatDateTime(addMonths(toDate(concat(through, '-01')), 1), '%Y-%m') AS behind
        FROM charge_bookings FINAL
    ),
    signed AS
    (
        SELECT cluster, node, hour, version, booking_period, 1 AS sign FROM kept
        UNION ALL
        SELECT cluster, node, hour, version, behind AS booking_period, -1 AS sign FROM kept
    )
SELECT
    cluster, node, hour, formatDateTime(hour, '%Y-%m') AS booking_period, toUInt8(0) AS correction,
    device, consumer_kind, consumer, container, reason, team, cost_centre, currency,
    region, zone, instance_type, capacity_type, gpu_model, mig_profile, sharing, namespace, pod, workload,
    used_ns, held_idle_ns, unallocated_ns, unobserved_ns, total_ns, unpriced_ns,
    used, held_idle, unallocated, unobserved, total
FROM charges_hourly
WHERE (cluster, node, hour) NOT IN (SELECT cluster, node, hour FROM charge_bookings)
UNION ALL
SELECT
    cluster, node, hour, booked_in AS booking_period,
    toUInt8(booked_in != formatDateTime(hour, '%Y-%m')) AS correction,
    device, consumer_kind, consumer, container, reason, team, cost_centre, currency,
    argMax(c.region, (at, c.region)) AS region,
    argMax(c.zone, (at, c.zone)) AS zone,
    argMax(c.instance_type, (at, c.instance_type)) AS instance_type,
    argMax(c.capacity_type, (at, c.capacity_type)) AS capacity_type,
    argMax(c.gpu_model, (at, c.gpu_model)) AS gpu_model,
    argMax(c.mig_profile, (at, c.mig_profile)) AS mig_profile,
    argMax(c.sharing, (at, c.sharing)) AS sharing,
    argMax(c.namespace, (at, c.namespace)) AS namespace,
    argMax(c.pod, (at, c.pod)) AS pod,
    argMax(c.workload, (at, c.workload)) AS workload,
    sum(sign * c.used_ns) AS used_ns,
    sum(sign * c.held_idle_ns) AS held_idle_ns,
    sum(sign * c.unallocated_ns) AS unallocated_ns,
    sum(sign * c.unobserved_ns) AS unobserved_ns,
    sum(sign * c.total_ns) AS total_ns,
    sum(sign * c.unpriced_ns) AS unpriced_ns,
    sum(sign * c.used) AS used,
    sum(sign * c.held_idle) AS held_idle,
    sum(sign * c.unallocated) AS unallocated,
    sum(sign * c.unobserved) AS unobserved,
    sum(sign * c.total) AS total
FROM
(
    SELECT
        cluster, node, hour, s.booking_period AS booked_in, s.sign AS sign, s.version AS at,
        device, consumer_kind, consumer, container, reason, team, cost_centre, currency,
        region, zone, instance_type, capacity_type, gpu_model, mig_profile, sharing, namespace, pod, workload,
        used_ns, held_idle_ns, unallocated_ns, unobserved_ns, total_ns, unpriced_ns,
        used, held_idle, unallocated, unobserved, total
    FROM signed AS s
    INNER JOIN
    (
        SELECT *
        FROM charge_hour_rows FINAL
        WHERE (cluster, node, hour) IN (SELECT cluster, node, hour FROM charge_bookings)
    ) AS r USING (cluster, node, hour, version)
    UNION ALL
    SELECT
        cluster, node, hour, k.booked_in AS booked_in, 1 AS sign, bitNot(toUInt128(0)) AS at,
        device, consumer_kind, consumer, container, reason, team, cost_centre, currency,
        region, zone, instance_type, capacity_type, gpu_model, mig_profile, sharing, namespace, pod, workload,
        used_ns, held_idle_ns, unallocated_ns, unobserved_ns, total_ns, unpriced_ns,
        used, held_idle, unallocated, unobserved, total
    FROM charges_hourly AS h
    INNER JOIN
    (
        SELECT cluster, node, hour, max(behind) AS booked_in
        FROM kept
        GROUP BY cluster, node, hour
    ) AS k USING (cluster, node, hour)
) AS c
GROUP BY
    cluster, node, hour, booked_in, device, consumer_kind, consumer, container, reason, team, cost_centre, currency
HAVING
    used_ns != 0 OR held_idle_ns != 0 OR unallocated_ns != 0 OR unobserved_ns != 0 OR unpriced_ns != 0
    OR ifNull(used, 0) != 0 OR ifNull(held_idle, 0) != 0 OR ifNull(unallocated, 0) != 0 OR ifNull(unobserved, 0) != 0;
