"""The topics as a table with rules, and what would have to change; no broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.bus.topics import (
    CONTIGUOUS,
    DEFAULT_PARTITIONS,
    KEPT_FOR_EVER,
    LONGEST_SPOOL_AGE_MS,
    MAX_RECORD_BYTES,
    NODE_KEYED,
    SPECS,
    TopicSpec,
    TopicState,
    check_rules,
    plan,
    wanted,
)
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES as MAX_BODY_BYTES
from gpuledger.contract.errors import Refused
from gpuledger.contract.topics import (
    BUDGET_STATE,
    CHARGES,
    GENERATIONS,
    PROGRESS,
    RECORDS_OF_TOPIC,
    TELEMETRY,
)

DAY_MS = 86_400_000


def _state(spec: TopicSpec, **config: str) -> TopicState:
    return TopicState(spec.partitions, spec.replication, {**spec.config, "flush.ms": "1", **config})


def _cluster(**more: TopicState) -> dict[str, TopicState]:
    return {spec.name: _state(spec) for spec in wanted()} | more


def _by_name(name: str) -> TopicSpec:
    return next(spec for spec in wanted() if spec.name == name)


def test_every_topic_of_the_contract_is_declared_once_with_a_reason() -> None:
    assert sorted(spec.name for spec in SPECS) == sorted(RECORDS_OF_TOPIC)
    assert all(spec.why for spec in SPECS)


def test_topics_keyed_by_node_have_one_number_of_partitions() -> None:
    assert {spec.partitions for spec in wanted(7) if spec.name in NODE_KEYED} == {7}
    assert {spec.partitions for spec in wanted() if spec.name in NODE_KEYED} == {DEFAULT_PARTITIONS}


def test_what_faust_reads_is_not_compacted_and_timestamps_are_the_brokers() -> None:
    for spec in wanted():
        assert spec.config["message.timestamp.type"] == "LogAppendTime"
        assert ("compact" in spec.config["cleanup.policy"]) == (spec.name in (PROGRESS, BUDGET_STATE))
    assert PROGRESS not in CONTIGUOUS


def test_telemetry_outlives_the_longest_spool_by_a_day() -> None:
    assert int(_by_name(TELEMETRY).config["retention.ms"]) >= LONGEST_SPOOL_AGE_MS + DAY_MS


def test_whole_documents_are_kept_for_ever() -> None:
    assert all(_by_name(name).config["retention.ms"] == "-1" for name in KEPT_FOR_EVER)


def test_the_largest_body_fits_with_its_frame_key_and_headers() -> None:
    assert MAX_RECORD_BYTES > MAX_BODY_BYTES + 5
    assert all(int(spec.config["max.message.bytes"]) > MAX_RECORD_BYTES for spec in SPECS)


def test_an_empty_cluster_gets_every_topic() -> None:
    changes = plan(wanted(3, 1), {})
    assert [change.topic for change in changes] == [spec.name for spec in SPECS]
    assert changes[0].after == "3 partitions, 1 replicas"


def test_a_cluster_that_has_all_needs_no_change() -> None:
    assert plan(wanted(), _cluster()) == []


def test_counts_that_nobody_asks_for_are_those_of_the_cluster() -> None:
    current = {spec.name: replace_count(_state(spec), 5, 2) for spec in wanted(5, 2)}
    assert plan(wanted(current=current), current) == []


def replace_count(state: TopicState, partitions: int, replication: int) -> TopicState:
    return replace(state, partitions=partitions if state.partitions != 1 else 1, replication=replication)


def test_a_setting_that_differs_is_one_change_with_before_and_after() -> None:
    current = _cluster(**{TELEMETRY: _state(_by_name(TELEMETRY), **{"message.timestamp.type": "CreateTime"})})
    (change,) = plan(wanted(), current)
    assert change == (TELEMETRY, "message.timestamp.type", "CreateTime", "LogAppendTime")


@pytest.mark.parametrize("kept", ["-1", str(99 * DAY_MS)])
def test_a_longer_retention_set_by_hand_stays_unless_it_is_forced(kept: str) -> None:
    current = _cluster(**{CHARGES: _state(_by_name(CHARGES), **{"retention.ms": kept})})
    assert plan(wanted(), current) == []
    forced = wanted(overrides={(CHARGES, "retention.ms"): str(40 * DAY_MS)})
    assert [change.after for change in plan(forced, current)] == [str(40 * DAY_MS)]


def test_a_shorter_retention_set_by_hand_is_raised() -> None:
    current = _cluster(**{TELEMETRY: _state(_by_name(TELEMETRY), **{"retention.ms": str(DAY_MS)})})
    assert [change.setting for change in plan(wanted(), current)] == ["retention.ms"]


@pytest.mark.parametrize("name", [TELEMETRY, GENERATIONS])
def test_another_number_of_partitions_is_refused(name: str) -> None:
    state = replace(_state(_by_name(name)), partitions=99)
    with pytest.raises(Refused, match=f"{name} has 99 partitions"):
        plan(wanted(), _cluster(**{name: state}))


def test_another_number_of_replicas_is_refused_with_the_tool_that_changes_it() -> None:
    state = replace(_state(_by_name(CHARGES)), replication=1)
    with pytest.raises(Refused, match="kafka-reassign-partitions"):
        plan(wanted(), _cluster(**{CHARGES: state}))


@pytest.mark.parametrize(
    ("topic", "setting", "value", "message"),
    [
        (TELEMETRY, "cleanup.policy", "compact", "holes in the offsets"),
        (CHARGES, "cleanup.policy", "delete,compact", "holes in the offsets"),
        (GENERATIONS, "cleanup.policy", "compact", "still count"),
        (PROGRESS, "cleanup.policy", "compact,delete", "must be compacted and nothing else"),
        (TELEMETRY, "message.timestamp.type", "CreateTime", "must be LogAppendTime"),
        (TELEMETRY, "retention.ms", str(4 * DAY_MS - 1), "the longest spool and a day"),
        (TELEMETRY, "retention.ms", "a week", "is no number"),
        (TELEMETRY, "retention.bytes", "1000000", "must be -1"),
        (GENERATIONS, "retention.ms", str(9_999 * DAY_MS), "read from its beginning"),
        (CHARGES, "max.message.bytes", "1048576", "the contract's largest record"),
        ("gpu.nonsense", "retention.ms", "1", "there is no topic gpu.nonsense"),
    ],
)
def test_a_setting_that_would_break_a_rule_is_refused(
    topic: str, setting: str, value: str, message: str
) -> None:
    with pytest.raises(Refused, match=message):
        wanted(overrides={(topic, setting): value})


def test_telemetry_may_be_kept_for_ever_and_for_exactly_the_least_time() -> None:
    for value in ("-1", str(4 * DAY_MS)):
        specs = wanted(overrides={(TELEMETRY, "retention.ms"): value})
        assert next(spec for spec in specs if spec.name == TELEMETRY).config["retention.ms"] == value


def test_different_counts_of_topics_keyed_by_node_are_refused() -> None:
    specs = [replace(spec, partitions=9) if spec.name == PROGRESS else spec for spec in wanted(8)]
    with pytest.raises(Refused, match="one number of partitions"):
        check_rules(specs)
