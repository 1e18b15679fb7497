"""A member that owns nothing: ended where partitions are nobody's, left alone where others own them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpuledger.bus import BusSettings
from gpuledger.bus.membership import LOOK_AFTER_S, NOBODYS_WITHIN_S, Coordinator, Membership
from gpuledger.contract.clock import NS_PER_S, ManualClock
from gpuledger.contract.errors import GpuledgerError, KafkaUnavailable
from gpuledger.localstack import Kafka
from gpuledger.sink.source import Source
from tests.support.kafka import create_topic
from tests.support.sink import SESSION_TIMEOUT_S
from tests.support.waiting import until

Unique = Callable[[str], str]


@pytest.fixture
def topic(kafka: Kafka, unique: Unique) -> str:
    return create_topic(kafka, unique("charges"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(boot_ns=NS_PER_S)


@pytest.fixture
def owner(bus: BusSettings, topic: str, unique: Unique) -> Iterator[tuple[Source, str]]:
    """A member that owns all partitions, and its group."""
    group = unique("group")
    source = Source(bus, topic, group, lambda places, lost: None, SESSION_TIMEOUT_S)
    until(lambda: not source.poll(0.2) and bool(source.owned))
    yield source, group
    source.close()


def heed_for(membership: Membership, clock: ManualClock, seconds: int) -> None:
    """Own nothing for so long, looked at every ten seconds."""
    for _ in range(0, seconds, 10):
        membership.heed(0)
        clock.advance(10 * NS_PER_S)


def answers(bus: BusSettings, group: str, topic: str) -> bool:
    """Whether the broker tells of a group and a topic; both may be new."""
    try:
        coordinator = Coordinator(bus, group)
        return bool(coordinator.group()) and bool(coordinator.places([topic]))
    except GpuledgerError:
        return False


def test_one_that_the_group_does_not_know_is_ended_soon(
    bus: BusSettings, topic: str, unique: Unique, clock: ManualClock
) -> None:
    group = unique("nobody")
    membership = Membership(bus, group, [topic], clock)
    until(lambda: answers(bus, group, topic))
    heed_for(membership, clock, LOOK_AFTER_S + NOBODYS_WITHIN_S)
    with pytest.raises(KafkaUnavailable, match=f"group {group} owns nothing for 120 s, and 1 partition"):
        membership.heed(0)


def test_one_beside_an_owner_of_all_partitions_is_left_alone(
    bus: BusSettings, topic: str, clock: ManualClock, owner: tuple[Source, str]
) -> None:
    heed_for(Membership(bus, owner[1], [topic], clock), clock, 600)


def test_time_without_partitions_begins_anew_after_each_assignment(
    bus: BusSettings, topic: str, unique: Unique, clock: ManualClock
) -> None:
    membership = Membership(bus, unique("nobody"), [topic], clock)
    for _ in range(5):
        heed_for(membership, clock, LOOK_AFTER_S + NOBODYS_WITHIN_S)
        membership.heed(1)


def test_one_whose_broker_is_away_waits(new_kafka: Kafka, topic: str, clock: ManualClock) -> None:
    new_kafka.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url="http://127.0.0.1:1")
    new_kafka.kill9()
    membership = Membership(bus, "a-group", [topic], clock)
    heed_for(membership, clock, LOOK_AFTER_S + 10)
    clock.advance(10 * NOBODYS_WITHIN_S * NS_PER_S)
    membership.heed(0)
