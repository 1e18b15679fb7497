"""Kafka and a schema registry on loopback, from Maven artifacts: for the demo, the tests and a first try.

No container engine is needed, only Java 17 and Maven. Production runs its own (docker-compose.yml).
"""

from gpuledger.localstack.artifacts import fetch
from gpuledger.localstack.classes import archive_classes
from gpuledger.localstack.errors import StackError
from gpuledger.localstack.kafka import SOON_LET_IN_AGAIN, Kafka
from gpuledger.localstack.registry import Registry
from gpuledger.localstack.server import Server, free_port, port_open

__all__ = [
    "SOON_LET_IN_AGAIN",
    "Kafka",
    "Registry",
    "Server",
    "StackError",
    "archive_classes",
    "fetch",
    "free_port",
    "port_open",
]
