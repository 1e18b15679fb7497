-- The ledger by hour, for months and years: stored sums, and for the few hours that changed since they were
-- stored (as a rule the one that is running) the sums of their windows. It always equals `charges_by_hour`.
CREATE OR REPLACE VIEW charges_hourly AS
SELECT * EXCEPT (version)
FROM
(
    SELECT cluster, node, hour, version
    FROM charge_hours FINAL
    WHERE (cluster, node, hour) NOT IN (SELECT cluster, node, hour FROM charge_dirty_hours)
) AS h
INNER JOIN
(
    SELECT *
    FROM charge_hour_rows FINAL
) AS r USING (cluster, node, hour, version)
UNION ALL
SELECT *
FROM charges_by_hour
WHERE (cluster, node, hour) IN (SELECT cluster, node, hour FROM charge_dirty_hours);
