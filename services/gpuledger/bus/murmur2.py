"""The partition of a node: the same hash as librdkafka's `murmur2_random` and Java's default partitioner.

gpu.nodes and gpu.progress must land in the partition of cluster/node, and the key of gpu.progress is
cluster/node/hour, so its partition is named explicitly, computed here.
"""

from __future__ import annotations

from functools import lru_cache

_SEED = 0x9747B28C  # org.apache.kafka.common.utils.Utils.murmur2
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF
KEPT_KEYS = 1 << 14  # nodes whose partition is kept: each has some records in every window


def murmur2(data: bytes) -> int:
    """Kafka's MurmurHash2 (32 bits, unsigned), as in org.apache.kafka.common.utils.Utils."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k ^= k >> _R
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


@lru_cache(KEPT_KEYS)
def partition_for_node(key: bytes, partitions: int) -> int:
    """Partition in [0, partitions) of the node with this key (`cluster/node`); ValueError if empty."""
    if not key:
        raise ValueError("an empty key has no partition of its own: murmur2_random spreads it at random")
    return (murmur2(key) & 0x7FFFFFFF) % partitions
