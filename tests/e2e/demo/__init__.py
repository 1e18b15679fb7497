"""The demo: one emulated GPU node, real kernel probes, real Kafka, real ClickHouse engine, checked sums."""
