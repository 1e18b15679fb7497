-- The same of heads that wait, in the same order: an hour is moved by INSERT SELECT.
ALTER TABLE charge_windows_waiting
    ADD COLUMN IF NOT EXISTS kept_by Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_workload Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_why Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_count Int64;
