"""Sending and reading on a real broker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Placed,
    Producer,
    TransactionalProducer,
    committed_offsets,
    partition_for_node,
)
from gpuledger.bus.topics import MAX_BATCH_BYTES, MAX_RECORD_BYTES
from gpuledger.contract.errors import (
    BadRecord,
    ConfigError,
    Fenced,
    GpuledgerError,
    KafkaUnavailable,
    ProducerBroken,
    Refused,
)
from gpuledger.contract.topics import TELEMETRY
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, free_port
from tests.support.kafka import create_topic
from tests.support.waiting import PATIENCE_S, until

Unique = Callable[[str], str]


def test_what_is_sent_lies_in_the_order_in_which_it_was_sent(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic = create_topic(kafka, unique("order"))
    sent = [
        Outgoing(topic, b"a/b", str(number).encode(), (("n", str(number).encode()),))
        for number in range(2_003)
    ]
    with Producer(bus, "test") as producer, PartitionReader(bus, "test") as reader:
        places = producer.produce_all(sent)
        read = list(reader.read_to_end(topic, 0))
    assert places == [Placed(topic, 0, number) for number in range(2_003)]
    assert [(record.key, record.value, record.headers) for record in read] == [record[1:4] for record in sent]
    assert [record.place for record in read] == places


def test_murmur2_is_the_partitioner_of_the_client(kafka: Kafka, bus: BusSettings, unique: Unique) -> None:
    topic = create_topic(kafka, unique("murmur"), partitions=23)
    rng = random.Random(23)
    keys = [
        f"cluster-{rng.randrange(9)}/{'n' * (length % 9)}{rng.randrange(10**6)}".encode()
        for length in range(211)
    ]
    keys += [bytes([255 - size] * size) for size in range(1, 13)]  # bytes above 127, every tail length
    with Producer(bus, "test") as producer:
        places = producer.produce_all(Outgoing(topic, key, b"") for key in keys)
    assert [place.partition for place in places] == [partition_for_node(key, 23) for key in keys]
    assert len({place.partition for place in places}) > 15


def test_a_named_partition_goes_before_the_key(kafka: Kafka, bus: BusSettings, unique: Unique) -> None:
    topic = create_topic(kafka, unique("named"), partitions=5)
    node = partition_for_node(b"cluster/node", 5)
    with Producer(bus, "test") as producer:
        places = producer.produce_all(
            Outgoing(topic, f"cluster/node/{hour}".encode(), None, partition=node) for hour in range(7)
        )
    assert {place.partition for place in places} == {node}


def test_the_largest_record_of_the_contract_passes_and_a_larger_one_is_a_bad_record(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic = create_topic(kafka, unique("large"), max_message_bytes=str(MAX_BATCH_BYTES))
    noise = random.Random(1).randbytes(MAX_RECORD_BYTES - 2_000)  # nothing for compression to win
    with Producer(bus, "test") as producer, PartitionReader(bus, "test") as reader:
        producer.produce_all([Outgoing(topic, b"k", noise)])
        assert [record.value for record in reader.read_to_end(topic, 0)] == [noise]
        with pytest.raises(BadRecord, match="over_limit"):
            producer.produce_all([Outgoing(topic, b"k", noise + bytes(4_000))])
        assert producer.produce_all([Outgoing(topic, b"k", b"small")])[0].offset == 1


def test_a_topic_that_does_not_exist_is_said_with_the_way_to_make_it(
    bus: BusSettings, unique: Unique
) -> None:
    with PartitionReader(bus, "test") as reader, pytest.raises(ConfigError, match="gpuledger topics apply"):
        reader.partitions(unique("nowhere"))


def test_a_broker_that_is_away_is_unavailable(unique: Unique) -> None:
    settings = BusSettings(kafka_bootstrap=f"127.0.0.1:{free_port()}")
    with Producer(settings, "test") as producer, pytest.raises(KafkaUnavailable):
        producer.produce_all([Outgoing(unique("away"), b"k", b"v")], timeout_s=0.7)


def test_after_a_record_was_given_up_none_overtakes_it(new_kafka: Kafka, unique: Unique) -> None:
    new_kafka.start()
    settings = BusSettings(kafka_bootstrap=new_kafka.bootstrap)
    topic = create_topic(new_kafka, unique("gap"))
    with Producer(settings, "test") as producer:
        producer.produce_all([Outgoing(topic, b"k", b"0")])
        new_kafka.stop()
        with pytest.raises(ProducerBroken, match="2 of 2 records not delivered"):
            producer.produce_all([Outgoing(topic, b"k", b"1"), Outgoing(topic, b"k", b"2")], timeout_s=0.7)
        new_kafka.start()
        with pytest.raises(ProducerBroken):
            producer.produce_all([Outgoing(topic, b"k", b"2")])
    with Producer(settings, "test") as again, PartitionReader(settings, "test") as reader:
        again.produce_all([Outgoing(topic, b"k", b"1"), Outgoing(topic, b"k", b"2")])
        assert [record.value for record in reader.read_to_end(topic, 0)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kafka_properties", [SOON_LET_IN_AGAIN], ids=["killed"])
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(new_kafka: Kafka, unique: Unique) -> None:
    new_kafka.start()
    settings = BusSettings(kafka_bootstrap=new_kafka.bootstrap)
    topic = create_topic(new_kafka, unique("kill"))
    outcomes: list[Placed | GpuledgerError] = []
    with Producer(settings, "test") as producer:
        for number in range(500):
            producer.send(Outgoing(topic, b"k", str(number).encode()), outcomes.append)
            if number == 211:
                producer.poll(0.05)
                new_kafka.kill9()
        new_kafka.restart()
        assert producer.flush(PATIENCE_S) == 0
    with PartitionReader(settings, "test") as reader:
        values = [record.value for record in reader.read_to_end(topic, 0)]
    assert values == [str(number).encode() for number in range(500)]
    assert [outcome.offset for outcome in outcomes if isinstance(outcome, Placed)] == list(range(500))


def test_a_range_a_time_and_the_bounds_of_a_partition_are_found(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic = create_topic(kafka, unique("range"), message_timestamp_type="LogAppendTime")
    with Producer(bus, "test") as producer, PartitionReader(bus, "test") as reader:
        assert reader.bounds(topic, 0) == (0, 0)
        assert list(reader.read_to_end(topic, 0)) == []
        for number in range(7):
            producer.produce_all([Outgoing(topic, b"k", str(number).encode())])
            time.sleep(0.01)
        assert reader.bounds(topic, 0) == (0, 7)
        assert [record.value for record in reader.read_range(topic, 0, 2, 4)] == [b"2", b"3", b"4"]
        assert [record.offset for record in reader.read_range(topic, 0, 5, 99)] == [5, 6]
        assert list(reader.read_range(topic, 0, 7, 9)) == []
        (fourth,) = reader.read_range(topic, 0, 4, 4)
        assert reader.offset_at(topic, 0, fourth.timestamp_ms * 1_000_000) == 4
        assert reader.offset_at(topic, 0, (fourth.timestamp_ms + 3_600_000) * 1_000_000) == 7
        assert reader.partitions(topic) == 1


def test_committed_offsets_are_those_of_the_group(kafka: Kafka, bus: BusSettings, unique: Unique) -> None:
    import confluent_kafka

    topic, group = create_topic(kafka, unique("committed"), partitions=3), unique("group")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 1, 7)], asynchronous=False)
        except confluent_kafka.KafkaException:  # a broker just started has no coordinator yet
            return False
        return True

    until(committed)
    consumer.close()
    assert committed_offsets(bus, "test", group, topic, [0, 1, 2]) == {0: None, 1: 7, 2: None}


def test_a_new_owner_of_a_transactional_id_fences_the_old_one(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic, owner = create_topic(kafka, unique("fenced")), unique("owner")
    with TransactionalProducer(bus, "old", owner) as old:
        old.commit([Outgoing(topic, b"k", b"old")])
        with TransactionalProducer(bus, "new", owner) as new:
            with pytest.raises(Fenced):
                old.commit([Outgoing(topic, b"k", b"zombie")])
            with pytest.raises(Fenced):
                old.commit([Outgoing(topic, b"k", b"zombie again")])
            new.commit([Outgoing(topic, b"k", b"new"), Outgoing(topic, b"k", b"newer")])
    with TransactionalProducer(bus, "last", owner), PartitionReader(bus, "test") as reader:
        assert [record.value for record in reader.read_to_end(topic, 0)] == [b"old", b"new", b"newer"]


def test_a_takeover_in_the_middle_of_a_transaction_leaves_none_of_it(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic, owner = create_topic(kafka, unique("middle")), unique("owner")
    with TransactionalProducer(bus, "old", owner) as old:
        old._sender.client.begin_transaction()
        old._sender.client.produce(topic, b"half")
        old._sender.client.flush(PATIENCE_S)
        with TransactionalProducer(bus, "new", owner) as new, PartitionReader(bus, "test") as reader:
            assert list(reader.read_to_end(topic, 0)) == []
            new.commit([Outgoing(topic, b"k", b"whole")])
            with TransactionalProducer(bus, "newest", owner):  # waits until the markers are written
                assert [record.value for record in reader.read_to_end(topic, 0)] == [b"whole"]


def test_no_transaction_is_written_where_offsets_must_be_contiguous(bus: BusSettings, unique: Unique) -> None:
    with (
        TransactionalProducer(bus, "test", unique("owner")) as producer,
        pytest.raises(Refused, match="holes in the offsets"),
    ):
        producer.commit([Outgoing(TELEMETRY, b"k", b"v")])
