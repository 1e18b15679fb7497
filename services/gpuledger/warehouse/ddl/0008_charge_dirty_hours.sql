-- Hours for which their windows speak and not the stored sums: those to sum again, `dirty_ns` of the newest
-- change. Not an hour of which fewer windows are left than were stored: its windows expired, and some came
-- again late. The stored sums hold for it until all have come, so that it never shrinks to what is left.
CREATE OR REPLACE VIEW charge_dirty_hours AS
WITH changed AS
(
    SELECT cluster, node, hour, max(latest) AS newest
    FROM
    (
        SELECT cluster, node, hour, writer, max(dirty) AS latest, max(clean) AS done
        FROM charge_hour_marks
        GROUP BY cluster, node, hour, writer
    )
    WHERE latest > done
    GROUP BY cluster, node, hour
)
SELECT c.cluster AS cluster, c.node AS node, c.hour AS hour, c.newest AS dirty_ns
FROM changed AS c
LEFT JOIN
(
    SELECT cluster, node, hour, windows AS stored
    FROM charge_hours FINAL
    WHERE (cluster, node, hour) IN (SELECT cluster, node, hour FROM changed)
) AS h USING (cluster, node, hour)
LEFT JOIN
(
    SELECT cluster, node, toStartOfHour(window_start) AS hour, count() AS present
    FROM charge_windows FINAL
    WHERE window_start >= (SELECT min(hour) FROM changed)
        AND (cluster, node, toStartOfHour(window_start)) IN (SELECT cluster, node, hour FROM changed)
    GROUP BY cluster, node, hour
) AS w USING (cluster, node, hour)
WHERE ifNull(w.present, 0) >= ifNull(h.stored, 0);
