"""The node side: one agent a node sees who asks the GPUs for what, and sends it in windows to Kafka."""
