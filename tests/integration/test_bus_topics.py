"""`gpuledger topics apply` on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from gpuledger.bus import Admin, BusSettings, apply_topics
from gpuledger.bus.cli import topics_app
from gpuledger.bus.topics import NODE_KEYED, SPECS
from gpuledger.contract.errors import Refused
from gpuledger.contract.topics import CHARGES, NODES, PRICES, PROGRESS, RECORDS_OF_TOPIC, TELEMETRY
from gpuledger.localstack import Kafka
from tests.support.kafka import STACK_DIRECTORY, create_topic


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    """A broker of this file alone: the topics' names are fixed."""
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as server:
        settings = BusSettings(kafka_bootstrap=server.bootstrap)
        apply_topics(settings, partitions=6, replication=1)
        yield settings


def test_every_topic_is_created_as_declared_and_a_second_apply_changes_nothing(settings: BusSettings) -> None:
    current = Admin(settings).topics()
    assert set(current) == set(RECORDS_OF_TOPIC)
    for spec in SPECS:
        for setting, value in spec.config.items():
            assert current[spec.name].config[setting] == value
    assert {current[name].partitions for name in NODE_KEYED} == {6}
    assert current[PRICES].partitions == 1
    assert apply_topics(settings) == []
    assert apply_topics(settings, partitions=6, replication=1) == []


def test_another_number_of_partitions_is_refused_and_nothing_is_changed(settings: BusSettings) -> None:
    before = Admin(settings).topics()
    with pytest.raises(Refused, match=r"gpu.telemetry has 6 partitions, not 7"):
        apply_topics(settings, partitions=7)
    assert Admin(settings).topics() == before


def test_a_setting_is_changed_and_shown_and_a_dry_run_leaves_it(settings: BusSettings) -> None:
    longer = {(CHARGES, "retention.ms"): str(60 * 86_400_000)}
    shown = apply_topics(settings, overrides=longer, dry_run=True)
    assert [(change.topic, change.setting, change.after) for change in shown] == [
        (CHARGES, "retention.ms", str(60 * 86_400_000))
    ]
    assert apply_topics(settings, overrides=longer) == shown
    assert Admin(settings).topics()[CHARGES].config["retention.ms"] == str(60 * 86_400_000)
    assert apply_topics(settings) == []  # a retention raised by hand stays: lowering it deletes records
    back = {(CHARGES, "retention.ms"): str(30 * 86_400_000)}
    assert len(apply_topics(settings, overrides=back)) == 1


@pytest.mark.parametrize(
    ("topic", "setting", "value"),
    [
        (TELEMETRY, "cleanup.policy", "compact"),
        (CHARGES, "cleanup.policy", "compact,delete"),
        (TELEMETRY, "message.timestamp.type", "CreateTime"),
        (TELEMETRY, "retention.ms", str(4 * 86_400_000 - 1)),
        (PROGRESS, "cleanup.policy", "delete"),
    ],
)
def test_a_setting_that_breaks_a_rule_is_refused_by_the_command_with_status_2(
    settings: BusSettings, monkeypatch: pytest.MonkeyPatch, topic: str, setting: str, value: str
) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", settings.kafka_bootstrap)
    result = CliRunner().invoke(topics_app, ["apply", "--set", f"{topic}:{setting}={value}"])
    assert isinstance(result.exception, Refused)
    assert topic in str(result.exception)
    assert Admin(settings).topics()[topic].config[setting] != value


def test_the_command_says_what_it_changed_as_a_table_and_as_json(
    new_kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_kafka.start()
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", new_kafka.bootstrap)
    runner = CliRunner()
    without = runner.invoke(topics_app, ["apply"])
    assert isinstance(without.exception, Refused)
    assert "3 replicas need as many brokers, and the cluster has 1" in str(without.exception)
    dry = runner.invoke(
        topics_app, ["apply", "--dry-run", "--json", "--partitions", "3", "--replication", "1"]
    )
    assert [change["topic"] for change in json.loads(dry.stdout)["changes"]] == [spec.name for spec in SPECS]
    assert Admin(BusSettings(kafka_bootstrap=new_kafka.bootstrap)).topics() == {}
    made = runner.invoke(topics_app, ["apply", "--partitions", "3", "--replication", "1"])
    assert made.exit_code == 0
    assert "gpu.telemetry" in made.stdout
    assert "3 partitions, 1 replicas" in made.stdout
    again = runner.invoke(topics_app, ["apply"])
    assert again.stdout == "Every topic is as it should be.\n"
    listed = json.loads(runner.invoke(topics_app, ["list", "--json"]).stdout)
    assert listed["gpu.nodes"]["partitions"] == 3
    assert "lifetimes" in runner.invoke(topics_app, ["list"], env={"COLUMNS": "200"}).stdout


def test_topics_that_were_made_by_hand_with_different_counts_are_refused(new_kafka: Kafka) -> None:
    new_kafka.start()
    create_topic(new_kafka, TELEMETRY, partitions=4)
    create_topic(new_kafka, NODES, partitions=3)
    settings = BusSettings(kafka_bootstrap=new_kafka.bootstrap)
    with pytest.raises(Refused, match=r"gpu.nodes has 3 partitions, not 4"):
        apply_topics(settings, replication=1)
    assert set(Admin(settings).topics()) == {TELEMETRY, NODES}
