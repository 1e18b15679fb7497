"""The Kafka edge: the only place that knows client options, and the schema registry's API.

Sending (``Producer``, ``TransactionalProducer``), reading by offsets (``PartitionReader``), the registry
(``SchemaRegistry``), dead letters, topics. Where it all is: ``BusSettings``, from the environment.
"""

from gpuledger.bus.admin import Admin, apply_topics
from gpuledger.bus.dead_letters import DeadLetters, letter
from gpuledger.bus.murmur2 import partition_for_node
from gpuledger.bus.producer import Producer
from gpuledger.bus.reader import PartitionReader, committed_offsets
from gpuledger.bus.records import Headers, Incoming, Outgoing, Placed
from gpuledger.bus.registry import Compatibility, SchemaRegistry
from gpuledger.bus.schemas import check_all, framed, register, register_all
from gpuledger.bus.settings import BusSettings, ClientConfig
from gpuledger.bus.topics import Change, TopicSpec, TopicState
from gpuledger.bus.transactions import TransactionalProducer

__all__ = [
    "Admin",
    "BusSettings",
    "Change",
    "ClientConfig",
    "Compatibility",
    "DeadLetters",
    "Headers",
    "Incoming",
    "Outgoing",
    "PartitionReader",
    "Placed",
    "Producer",
    "SchemaRegistry",
    "TopicSpec",
    "TopicState",
    "TransactionalProducer",
    "apply_topics",
    "check_all",
    "committed_offsets",
    "framed",
    "letter",
    "partition_for_node",
    "register",
    "register_all",
]
