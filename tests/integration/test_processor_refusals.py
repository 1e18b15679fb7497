"""What a processor worker lives through: whatever lies in the topics that it reads."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import confluent_kafka
import pytest

from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
)
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import (
    DeadLetter,
    Generation,
    NodeLifetime,
    PriceBookVersion,
    PriceEntry,
    decode,
)
from gpuledger.contract.wire import unframe
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, read_all, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

GARBAGE = (b"", b"junk", b"\x00\x00\x00\x00\x01\xff\xff", b"\x00\x7f\xff\xff\xff")
PARTITIONS = 2

pytestmark = pytest.mark.usefixtures("priced")


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


def letters(bus: BusSettings) -> Counter[tuple[str, str]]:
    """How many dead letters there are of each topic and reason."""
    found = [decode(DeadLetter, unframe(m.value or b"")[1]) for m in read_all(bus, topics.DEAD_LETTERS)]
    return Counter((one.source_topic, one.reason) for one in found)


def states(bus: BusSettings) -> dict[int, str]:
    """The state of each window that lies in the node's life."""
    return {start: found.state for (_, start), found in ledger(bus).sets.items() if found.state != "ended"}


def test_what_can_not_be_read_beside_the_log_is_passed_over_and_kept(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    home = partition_for_node(node.key.key, PARTITIONS)
    beside = (topics.NODES, topics.PROGRESS, topics.PRICES, topics.TEAMS, topics.GENERATIONS)
    with Producer(own_bus, "hostile") as producer, SchemaRegistry(own_bus) as schemas:
        junk = [Outgoing(topic, b"junk", value, (), 0) for topic in beside for value in GARBAGE]
        lives = [(1, None), (start, start - 1), (1 << 62, None)]
        statements = [(NodeLifetime(*node.key, node.layout, *life), home) for life in lives]
        statements.append((node.lifetime(start - 9 * WINDOW_NS), 1 - home))
        for record, partition in statements:
            junk.append(Outgoing(topics.NODES, b"c/n/i", framed(schemas, record), (), partition))
        odd = [
            Generation(1, 0, 0, 1 << 62, 0, 0, policy={"burst": "nonsense"}),
            Generation(2, 0, 0, 1 << 62, 0, 0, policy={"nonsense": "1"}),
            Generation(3, 0, 0, 1 << 62, price_version=99, team_version=0),
        ]
        junk += [Outgoing(topics.GENERATIONS, b"g", framed(schemas, record), (), 0) for record in odd]
        producer.produce_all(junk)
    sender.lifetime(node.lifetime(start, start + 2 * WINDOW_NS))
    for i in range(2):
        sender.telemetry(node.window(start + i * WINDOW_NS))
    worker = workers.start()
    workers.await_that(lambda: workers.committed(home) == 6, PATIENCE_S, "acknowledged")
    assert worker.poll() is None
    assert states(own_bus) == {start: "complete", start + WINDOW_NS: "complete"}
    expected = {
        (topics.NODES, "bad_meaning"): 3, (topics.NODES, "wrong_partition"): 1,
        (topics.GENERATIONS, "bad_meaning"): 2,
    }  # fmt: skip
    all_told = len(beside) * len(GARBAGE) + sum(expected.values())
    workers.await_that(lambda: sum(letters(own_bus).values()) >= all_told, PATIENCE_S, "told")
    found = letters(own_bus)
    assert sum(found.values()) == all_told
    assert expected.items() <= found.items()
    for topic in beside:
        assert sum(count for (source, _), count in found.items() if source == topic) >= len(GARBAGE), topic
    workers.kill(worker)
    workers.start()
    sender.telemetry(node.window(start + 2 * WINDOW_NS))
    workers.await_that(lambda: workers.committed(home) == 9, PATIENCE_S, "acknowledged by the next one")
    with Producer(own_bus, "hostile") as producer:
        producer.produce_all([Outgoing(topics.GENERATIONS, b"g", b"junk", (), 0)])
    more = all_told + 1
    workers.await_that(lambda: sum(letters(own_bus).values()) >= more, PATIENCE_S, "the new one told")
    assert sum(letters(own_bus).values()) == more, "nothing is told twice"


def test_record_in_another_partition_than_its_nodes_is_refused(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    home = partition_for_node(node.key.key, PARTITIONS)
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    keyframe, calls, samples = node.window(start)
    with Producer(own_bus, "hostile") as producer:
        producer.produce_all([sender.outgoing(calls)._replace(partition=1 - home)])
    sender.telemetry([keyframe, calls, samples])
    workers.start()
    workers.await_that(lambda: workers.committed(home) == 3, PATIENCE_S, "acknowledged")
    workers.await_that(lambda: workers.committed(1 - home) == 1, PATIENCE_S, "acknowledged there")
    assert letters(own_bus) == {(topics.TELEMETRY, "wrong_partition"): 1}
    assert states(own_bus) == {start: "complete"}


def test_marks_of_transactions_in_the_log_are_no_gap_and_hold_up_no_silent_node(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    home = partition_for_node(node.key.key, PARTITIONS)
    others = (NodeKey("c", f"silent{i}") for i in range(99))
    silent = Node(next(key for key in others if partition_for_node(key.key, PARTITIONS) == home))
    for one in (node, silent):
        sender.lifetime(one.lifetime(start, start + 2 * WINDOW_NS))
    commit(own_bus, home, map(sender.outgoing, node.window(start)))
    sender.telemetry(node.window(start + WINDOW_NS))
    commit(own_bus, home, [sender.outgoing(silent.holdings(start))])
    worker = workers.start()
    workers.await_that(lambda: workers.committed(home) == 9, PATIENCE_S, "acknowledged")
    assert worker.poll() is None
    found = ledger(own_bus).sets
    assert {found[node.key, start + i * WINDOW_NS].state for i in range(2)} == {"complete"}
    assert found[silent.key, start].state == "incomplete"


def commit(bus: BusSettings, partition: int, records: Iterable[Outgoing]) -> None:
    """Write in one transaction, as nobody of ours does here, and await its mark."""
    config = bus.client_config().with_options({"transactional.id": "foreign", "partitioner": "murmur2"})
    foreign = confluent_kafka.Producer(dict(config))
    foreign.init_transactions(PATIENCE_S)
    foreign.begin_transaction()
    sent = list(records)
    with PartitionReader(bus, "foreign") as reader:
        end = reader.bounds(topics.TELEMETRY, partition)[1] + len(sent) + 1
        for record in sent:
            foreign.produce(record.topic, record.value, record.key, headers=list(record.headers))
        foreign.commit_transaction(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while reader.bounds(topics.TELEMETRY, partition)[1] < end:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_price_of_which_no_record_can_hold_the_charges_refuses_the_window(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    home = partition_for_node(node.key.key, PARTITIONS)
    entry = PriceEntry("n", "gpu", (1 << 63) - 1, "USD")
    dear = PriceBookVersion(2, start + WINDOW_NS, entries=[entry])
    with Producer(own_bus, "hostile") as producer, SchemaRegistry(own_bus) as schemas:
        producer.produce_all([Outgoing(topics.PRICES, b"prices", framed(schemas, dear), (), 0)])
    sender.lifetime(node.lifetime(start, start + 2 * WINDOW_NS))
    sender.telemetry(node.window(start))
    many = node.window(start + WINDOW_NS)
    many[0].layout.gpu_count = 1000  # type: ignore[union-attr]
    sender.telemetry(many)
    workers.start()
    workers.await_that(lambda: workers.committed(home) == 6, PATIENCE_S, "acknowledged")
    assert states(own_bus) == {start: "complete", start + WINDOW_NS: "refused"}
    assert letters(own_bus) == {(topics.TELEMETRY, "core_error"): 3}
