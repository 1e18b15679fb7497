"""What time it is at the broker.

Kafka has no request that tells the time. An own record that the broker stamps on arrival
(``message.timestamp.type=LogAppendTime``) does: a tombstone on gpu.progress, which every reader of it passes
over and compaction removes. It assumes that the clocks of the cluster's brokers agree to a few seconds,
which is little beside the 60 s of silence; the worker's own clock plays no part.
"""

from __future__ import annotations

import os
import socket

import structlog

from gpuledger.bus import Outgoing, PartitionReader, Producer
from gpuledger.contract.clock import Clock
from gpuledger.contract.topics import PROGRESS

NS_PER_MS = 1_000_000
PARTITION = 0  # any one will do
ATTEMPTS = 20  # an open transaction of another owner hides what lies behind it, for milliseconds
PAUSE_S = 0.05
_log = structlog.get_logger(__name__)


class BrokerTime:
    """Takes the broker's time. Owned by the thread of its reader and producer, which stay the caller's."""

    def __init__(self, reader: PartitionReader, producer: Producer, clock: Clock) -> None:
        self._reader = reader
        self._producer = producer
        self._clock = clock
        self._key = f"-/clock/{socket.gethostname()}-{os.getpid()}".encode()

    def now(self) -> int | None:
        """Broker time in Unix ns, of an instant during the call; None where it could not be had now."""
        (placed,) = self._producer.produce_all([Outgoing(PROGRESS, self._key, None, partition=PARTITION)])
        for _ in range(ATTEMPTS):
            for message in self._reader.read_range(PROGRESS, PARTITION, placed.offset, placed.offset):
                return message.timestamp_ms * NS_PER_MS
            self._clock.sleep(PAUSE_S)
        _log.warning("the broker's time could not be read", offset=placed.offset)
        return None
