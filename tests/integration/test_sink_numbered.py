"""A topic of numbered records, read as it grows, over a real broker and a real registry."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed
from gpuledger.configuration.periods import Periods
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.topics import PERIODS
from gpuledger.sink.numbered import NumberedTopic

pytest_plugins = ["tests.support.empty_ledger"]
FIRST = PeriodsVersion(
    version=1, active_from_ns=1, closed_through="2026-10", created_ns=1, author="", comment=""
)
SECOND = replace(FIRST, version=2, closed_through="2026-11")


def topic_of(bus: BusSettings) -> NumberedTopic[PeriodsVersion]:
    return NumberedTopic(bus, SystemClock(), PeriodsVersion, lambda version: version.version)


def publish(bus: BusSettings, *values: PeriodsVersion | bytes | None) -> None:
    with SchemaRegistry(bus) as registry, Producer(bus, "test") as producer:
        framed_values = [framed(registry, v) if isinstance(v, PeriodsVersion) else v for v in values]
        producer.produce_all([Outgoing(PERIODS, b"periods", v, partition=0) for v in framed_values])


def test_it_is_read_on_from_where_it_ended_and_of_two_with_one_number_the_first_holds(
    ledger: BusSettings,
) -> None:
    Periods(ledger, SystemClock()).versions()  # the topic, just made, has a leader now
    topic = topic_of(ledger)
    topic.read()
    assert topic.known == {}
    assert topic.connected
    publish(ledger, FIRST, replace(FIRST, closed_through="2026-09"))
    assert topic.known == {}  # nothing by itself
    topic.read()
    assert topic.known == {1: FIRST}
    publish(ledger, SECOND, replace(FIRST, closed_through="2026-08"))
    topic.read()
    assert topic.known == {1: FIRST, 2: SECOND}
    topic.close()
    assert not topic.connected
    topic.read()
    assert topic.known == {1: FIRST, 2: SECOND}
    topic.close()


def test_what_can_not_be_read_is_passed_over(ledger: BusSettings) -> None:
    Periods(ledger, SystemClock()).versions()
    publish(ledger, b"no record", None, FIRST, b"\x00\x00\x00\x7f\xff" + b"of a schema nobody knows", SECOND)
    topic = topic_of(ledger)
    topic.read()
    assert topic.known == {1: FIRST, 2: SECOND}
    topic.close()


def test_a_topic_that_is_not_there_has_no_records(bus: BusSettings) -> None:
    topic = topic_of(bus)
    topic.read()
    assert topic.known == {}
    assert topic.connected
    topic.close()
