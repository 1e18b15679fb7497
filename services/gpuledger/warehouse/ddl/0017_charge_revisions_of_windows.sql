-- Each head that is written to charge_windows is a revision that came in: a row of charge_revisions.
CREATE MATERIALIZED VIEW IF NOT EXISTS charge_revisions_of_windows TO charge_revisions AS
SELECT
    cluster, node, window_start, revision, rows, price_version,
    received_at AS first_received_at, received_at AS last_received_at
FROM charge_windows;
