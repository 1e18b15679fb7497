"""Computing history again: the same records, through the same window logic and the same core.

A replay of a partition is an owner of it, as a processor has one, that reads from Kafka or from an archive
and keeps charges and progress in a file of its own. What becomes of the charges (compared, shown, published)
is decided once all partitions are computed.
"""
