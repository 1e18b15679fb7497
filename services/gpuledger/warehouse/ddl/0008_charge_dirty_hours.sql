-- Hours to sum again; `dirty_ns` of the newest change.
CREATE OR REPLACE VIEW charge_dirty_hours AS
SELECT cluster, node, hour, max(latest) AS dirty_ns
FROM
(
    SELECT cluster, node, hour, writer, max(dirty) AS latest, max(clean) AS done
    FROM charge_hour_marks
    GROUP BY cluster, node, hour, writer
)
WHERE latest > done
GROUP BY cluster, node, hour;
