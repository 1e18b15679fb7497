-- Pods without GPUs that kept the node alive while nobody held a GPU of it: namespace/pod, its controlling
-- owner, and why an autoscaler leaves it (words with commas), side by side; `kept_by_count` of them there are.
ALTER TABLE charge_windows
    ADD COLUMN IF NOT EXISTS kept_by Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_workload Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_why Array(String),
    ADD COLUMN IF NOT EXISTS kept_by_count Int64;
