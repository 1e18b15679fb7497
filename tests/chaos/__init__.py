"""The whole stack, broken at random bad moments, and its ledger held against what lies in Kafka."""
