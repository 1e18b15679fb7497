"""What Kafka's retention took, and what a replay may still say of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gpuledger.bus import BusSettings, Outgoing, SchemaRegistry, framed
from gpuledger.contract import topics
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.recorded import read_recorded
from gpuledger.replay.request import Request
from gpuledger.replay.running import replay
from tests.support.charge_sets import charge_set
from tests.support.fleet import WINDOW_NS, Node, Sender, recent_start
from tests.support.processors import SILENCE_S, Workers
from tests.support.waiting import PATIENCE_S

SETTINGS = ProcessorSettings(silence_s=SILENCE_S)


def forget(bus: BusSettings, topic: str, before: int) -> None:
    """What retention does: all below an offset of partition 0 is gone."""
    client = AdminClient(dict(bus.client_config()))
    for future in client.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(PATIENCE_S)


def minutes(bus: BusSettings, from_ns: int, count: int = 1) -> Request:
    """So many minutes, from the one of an instant on."""
    start = from_ns - from_ns % MINUTE_NS
    return Request(start, start + count * MINUTE_NS, SETTINGS, bus.plain())


@pytest.mark.usefixtures("priced")
def test_a_partition_whose_nodes_are_long_gone_keeps_nobody_from_replaying(
    own_bus: BusSettings, sender: Sender, workers: Workers, tmp_path: Path
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    sender.telemetry(node.window(start))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    forget(own_bus, topics.TELEMETRY, 3)
    later = minutes(own_bus, time.time_ns() + 10 * MINUTE_NS)
    assert replay(later, tmp_path / "later", 1).windows == 0
    with pytest.raises(Refused, match="replay from an archive, or a later time"):
        replay(minutes(own_bus, start - 5 * MINUTE_NS, 6), tmp_path / "then", 1)


def test_a_ledger_of_which_retention_took_a_part_is_not_compared_as_if_it_were_whole(
    own_bus: BusSettings, sender: Sender, tmp_path: Path
) -> None:
    start = recent_start(30)
    with SchemaRegistry(own_bus) as schemas:
        for window in range(2):
            value = framed(schemas, charge_set(start + window * WINDOW_NS, cluster="c", node="n"))
            sender.send(Outgoing(topics.CHARGES, b"c/n", value))
    request = minutes(own_bus, start - 5 * MINUTE_NS, 10)
    read_recorded(request, 0, tmp_path / "whole")
    forget(own_bus, topics.CHARGES, 1)
    with pytest.raises(Refused, match="compare with --against warehouse, or a later time"):
        read_recorded(request, 0, tmp_path / "part")
    read_recorded(minutes(own_bus, time.time_ns() + 10 * MINUTE_NS), 0, tmp_path / "later")
    forget(own_bus, topics.CHARGES, 2)
    read_recorded(request, 0, tmp_path / "none")
