-- The heads that were there before charge_revisions was. What they had replaced is not known any more.
INSERT INTO charge_revisions
SELECT cluster, node, window_start, revision, rows, price_version, received_at, received_at
FROM charge_windows FINAL;
