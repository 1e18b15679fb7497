-- The ledger, window by window: the rows of the greatest revision of each window, each once. This is what
-- queries read. `total` is NULL where nothing of the row has a price. The heads stand first, so that their
-- snapshot is never younger than that of the rows.
CREATE OR REPLACE VIEW charges AS
SELECT
    * EXCEPT (received_at),
    r.used_ns + r.held_idle_ns + r.unallocated_ns + r.unobserved_ns AS total_ns,
    r.used + r.held_idle + r.unallocated + r.unobserved AS total,
    r.received_at AS received_at
FROM
(
    SELECT cluster, node, window_start, revision
    FROM charge_windows FINAL
) AS w
INNER JOIN
(
    SELECT *
    FROM charge_rows FINAL
) AS r USING (cluster, node, window_start, revision)
SETTINGS do_not_merge_across_partitions_select_final = 1;
