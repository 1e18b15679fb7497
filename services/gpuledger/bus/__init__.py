"""The Kafka edge: the only place that knows client options, and the schema registry's API.

Sending (``Producer``, ``TransactionalProducer``), reading by offsets (``PartitionReader``), the registry
(``SchemaRegistry``), dead letters, topics. Where it all is: ``BusSettings``, from the environment.

What is named here is imported when it is first used: a process carries only what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuledger.bus.access import BusAccess, ClientConfig
    from gpuledger.bus.admin import Admin, apply_topics
    from gpuledger.bus.dead_letters import DeadLetters, letter
    from gpuledger.bus.murmur2 import partition_for_node
    from gpuledger.bus.producer import Producer
    from gpuledger.bus.reader import PartitionReader, committed_offsets
    from gpuledger.bus.records import Headers, Incoming, Outgoing, Placed
    from gpuledger.bus.registry import Compatibility, SchemaRegistry
    from gpuledger.bus.schemas import check_all, framed, register, register_all, unframed
    from gpuledger.bus.settings import BusSettings
    from gpuledger.bus.topics import Change, TopicSpec, TopicState
    from gpuledger.bus.transactions import TransactionalProducer

__all__ = [
    "Admin",
    "BusAccess",
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
    "unframed",
]

_NAMES_OF = {
    "access": ("BusAccess", "ClientConfig"),
    "admin": ("Admin", "apply_topics"),
    "dead_letters": ("DeadLetters", "letter"),
    "murmur2": ("partition_for_node",),
    "producer": ("Producer",),
    "reader": ("PartitionReader", "committed_offsets"),
    "records": ("Headers", "Incoming", "Outgoing", "Placed"),
    "registry": ("Compatibility", "SchemaRegistry"),
    "schemas": ("check_all", "framed", "register", "register_all", "unframed"),
    "settings": ("BusSettings",),
    "topics": ("Change", "TopicSpec", "TopicState"),
    "transactions": ("TransactionalProducer",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
