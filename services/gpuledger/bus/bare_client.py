"""confluent-kafka without its package's front, for processes that must stay small.

``import confluent_kafka`` brings its serializers, and with them asyncio: 8 MB that a producer never uses. The
client itself is the one module ``confluent_kafka.cimpl``. A process calls `bare_client` before its first
import of the package; whatever else the package has can be imported from its modules as ever.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys


def bare_client() -> None:
    """Put packages without their ``__init__`` in the place of ``confluent_kafka`` and its ``admin``.

    Does nothing where the package is imported already.
    """
    if "confluent_kafka" in sys.modules:
        return
    front = _without_init("confluent_kafka")
    client = importlib.import_module("confluent_kafka.cimpl")
    for name in ("KafkaError", "KafkaException", "Message", "Producer", "TopicPartition"):
        setattr(sys.modules[front], name, getattr(client, name))
    admin = sys.modules[_without_init("confluent_kafka.admin")]
    metadata = importlib.import_module("confluent_kafka.admin._metadata")
    for name in ("ClusterMetadata", "BrokerMetadata", "TopicMetadata", "PartitionMetadata"):
        setattr(admin, name, getattr(metadata, name))  # the client makes its answers of these, found by name


def _without_init(package: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    module = importlib.util.module_from_spec(spec)  # made, and not run
    sys.modules[package] = module
    parent, _, name = package.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, module)
    return package
