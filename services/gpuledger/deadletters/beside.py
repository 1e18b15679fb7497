"""The mended copy of a refused record of another topic than gpu.telemetry."""

from __future__ import annotations

from gpuledger.bus import Outgoing, SchemaRegistry, partition_for_node
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import DeadLetter
from gpuledger.deadletters.bodies import decoded

_PUBLISHED = "publish it as a new version: `gpuledger config apply`"
ELSEWHERE = {
    topics.PRICES: _PUBLISHED,
    topics.TEAMS: _PUBLISHED,
    topics.BUDGETS: _PUBLISHED,
    topics.GENERATIONS: "announce a new generation: `gpuledger replay --publish`",
    topics.PROGRESS: "the processor writes what it needs of it anew",
}


def copy_beside(
    letter: DeadLetter, value: bytes | None, registry: SchemaRegistry, partitions: int
) -> Outgoing:
    """The copy for a topic of so many partitions. Raises Refused where it is of no use, Unavailable."""
    topic = letter.source_topic
    if topic in ELSEWHERE:
        raise Refused(ELSEWHERE[topic])
    if topic not in (topics.NODES, topics.CHARGES):
        raise Refused(f"records of {topic} are made anew by who writes them")
    try:
        body = decoded(topic, value, registry)
        node = NodeKey(body.fields["cluster"], body.fields["node"])
        partition = partition_for_node(node.key, partitions)
    except BadRecord as error:
        raise Refused(f"it would be refused again: {error}") from error
    key = node.key
    if topic == topics.NODES:
        key += b"/" + body.fields["layout"]["instance_id"].encode()
    return Outgoing(topic, key, value, (), partition)
