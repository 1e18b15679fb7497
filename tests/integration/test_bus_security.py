"""A broker with TLS, passwords and rights: what deploy/kafka/acls.sh gives is enough, and no more."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from typer.testing import CliRunner

import gpuledger
from gpuledger.archive.archiver import ARCHIVED
from gpuledger.bus import (
    Admin,
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    TransactionalProducer,
    committed_offsets,
    register_all,
)
from gpuledger.bus.faust_client import faust_options
from gpuledger.configuration.cli import app as config_app
from gpuledger.configuration.periods_cli import app as period_app
from gpuledger.contract import topics
from gpuledger.contract.errors import ConfigError, KafkaUnavailable
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.topics import (
    BREACH_NOTES,
    BREACHES,
    BUDGET_STATE,
    BUDGET_SUBTOTALS,
    BUDGETS,
    CHARGES,
    DEAD_LETTERS,
    GENERATIONS,
    NODES,
    PERIODS,
    PRICES,
    PROGRESS,
    RECORDS_OF_TOPIC,
    TEAMS,
    TELEMETRY,
)
from gpuledger.deadletters.cli import app as letters_app
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.distributed import replay_distributed
from gpuledger.replay.request import Request
from tests.support.children import tied
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, read_all, recent_start
from tests.support.processors import SILENCE_S, Workers
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.secured"]
As = Callable[[str], BusSettings]
PACKAGES = ["inventory", "processor", "sink", "budgets", "notify", "archive", "replay"]
CONFIGURATION = {PRICES, TEAMS, BUDGETS, PERIODS, GENERATIONS}
EVERY = set(RECORDS_OF_TOPIC)
# What each user reads and writes: all of it, and nothing else.
RIGHTS: dict[str, tuple[set[str], set[str]]] = {
    "agent": (set(), {TELEMETRY, NODES}),
    "inventory": ({NODES}, {NODES}),
    "processor": (
        {TELEMETRY, NODES, PRICES, TEAMS, GENERATIONS, PROGRESS},
        {CHARGES, PROGRESS, DEAD_LETTERS},
    ),
    "sink": ({CHARGES, BREACHES, PERIODS, GENERATIONS}, {DEAD_LETTERS}),
    "budgets": (
        {CHARGES, BUDGETS, PRICES, BUDGET_SUBTOTALS, BUDGET_STATE, BREACHES, BREACH_NOTES},
        {BUDGET_SUBTOTALS, BUDGET_STATE, BREACHES, BREACH_NOTES, DEAD_LETTERS},
    ),
    "notify": ({BREACHES}, {DEAD_LETTERS}),
    "commitments": ({PRICES}, {CHARGES}),
    "archive": (set(ARCHIVED), set()),
    "replay": ({TELEMETRY, NODES, PRICES, TEAMS, PERIODS, GENERATIONS, CHARGES}, {CHARGES, GENERATIONS}),
    "operator": (EVERY - {BUDGET_SUBTOTALS, BUDGET_STATE}, {TELEMETRY, NODES, BREACH_NOTES, DEAD_LETTERS}),
    "admin": (CONFIGURATION, CONFIGURATION),
}
NOT_ITS_OWN = {"inventory": {PROGRESS}}  # `gpuledger nodes` is the operator's


def test_a_line_of_services_works_with_the_rights_that_each_has(
    as_user: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator publishes prices, an agent speaks of a node, a worker charges it, budgets count it, a
    replay that workers share comes to as many windows, and an operator looks after what was refused."""
    with SchemaRegistry(as_user("gpuledger-admin")) as schemas:
        register_all(schemas)
    prices = tmp_path / "prices.yaml"
    prices.write_text("kind: prices\nprices: [{id: gpu, per: gpu, price_per_hour: 12.29}]\n")
    now = datetime.now(UTC)
    last_month = (now.replace(day=1) - timedelta(days=1)).strftime("%Y-%m")
    for app, command in (
        (config_app, ["apply", "--yes", "--url", "", str(prices)]),
        (period_app, ["close", "--yes", last_month]),
    ):
        done = CliRunner(env=environment(as_user("gpuledger-admin"))).invoke(app, command)
        assert done.exception is None, done.exception

    sender, node, start = Sender(as_user("gpuledger-agent")), Node(NodeKey("c", "line")), recent_start(30)
    windows = [start + number * WINDOW_NS for number in range(5)]
    sender.telemetry(record for at in windows for record in node.window(at))
    sender.lifetime(node.lifetime(start, start + 5 * WINDOW_NS))
    sender.close()

    for name, value in environment(as_user("gpuledger-processor")).items():
        monkeypatch.setenv(name, value)
    workers = Workers(as_user("gpuledger-processor"), "gpuledger-line", tmp_path)
    workers.start()
    root = as_user("admin")
    workers.await_that(lambda: len(ledger(root).sets) == len(windows), PATIENCE_S, "all is charged")
    workers.end()

    for name, value in environment(as_user("gpuledger-budgets")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPULEDGER_BUDGETS_DATA_DIRECTORY", str(tmp_path / "budgets"))
    with (tmp_path / "budgets.log").open("wb") as log:
        command = tied([sys.executable, "-m", "gpuledger", "budgets", "run"])
        counting = subprocess.Popen(command, stdout=log, stderr=log)
    until(lambda: counting.poll() is not None or read_all(root, BUDGET_STATE))
    assert counting.poll() is None, (tmp_path / "budgets.log").read_text()
    counting.kill()
    counting.wait()

    replaying = as_user("gpuledger-replay")
    settings = ProcessorSettings(silence_s=SILENCE_S, data_directory=tmp_path / "faust")
    request = Request(windows[0], windows[-1], settings, replaying.plain())
    assert replay_distributed(request, tmp_path / "state", replaying, 1).windows == len(windows) - 1

    listed = CliRunner(env=environment(as_user("gpuledger-operator"))).invoke(letters_app, ["list", "--json"])
    assert json.loads(listed.stdout)["letters"] == []


def environment(bus: BusSettings) -> dict[str, str]:
    """What a service of that user is told."""
    said = bus.model_dump(mode="json", exclude_none=True)
    return {f"GPULEDGER_{name.upper()}": str(value) for name, value in said.items()}


@pytest.mark.parametrize("user", RIGHTS)
def test_a_user_may_read_and_write_what_its_service_does_and_nothing_else(as_user: As, user: str) -> None:
    admin = AdminClient(dict(as_user(f"gpuledger-{user}").plain().client_config()))
    reads, writes = set(), set()
    asked = admin.describe_topics(TopicCollection(sorted(EVERY)), include_authorized_operations=True)
    for topic, answer in asked.items():
        try:
            allowed = answer.result().authorized_operations or []
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            continue
        reads |= {topic} if AclOperation.READ in allowed else set()
        writes |= {topic} if AclOperation.WRITE in allowed else set()
    assert (reads, writes) == RIGHTS[user]


@pytest.mark.parametrize(
    "service", ["inventory", "processor", "sink", "budgets", "notify", "archive", "replay"]
)
def test_a_user_has_a_right_to_every_topic_that_the_code_of_its_service_names(service: str) -> None:
    package = Path(gpuledger.__path__[0]) / service
    text = "\n".join(path.read_text() for path in package.rglob("*.py"))
    named = {name for name in vars(topics) if isinstance(getattr(topics, name), str) and name.isupper()}
    used = {getattr(topics, name) for name in named if re.search(rf"\b{name}\b", text)} & EVERY
    assert used
    assert used - NOT_ITS_OWN.get(service, set()) <= set.union(*RIGHTS[service])


def test_an_agent_may_write_its_telemetry_and_may_read_nothing(as_user: As) -> None:
    settings = as_user("gpuledger-agent")
    assert Admin(settings).topics()[NODES].partitions == 2
    with Producer(settings, "agent") as producer:
        producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"1"), Outgoing(NODES, b"c/n", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(CHARGES, b"c/n", b"forged")])
    with PartitionReader(settings, "agent") as reader, pytest.raises(ConfigError, match="ACL"):
        list(reader.read_range(TELEMETRY, 0, 0, 0) or reader.read_range(TELEMETRY, 1, 0, 0))


def test_a_processor_may_do_its_work(as_user: As) -> None:
    settings = as_user("gpuledger-processor")
    with Producer(settings, "processor") as producer:
        producer.produce_all([Outgoing(CHARGES, b"c/n", b"1"), Outgoing(DEAD_LETTERS, b"c/n", b"1")])
    with TransactionalProducer(settings, "processor", "gpuledger-processor-0") as owner:
        owner.commit([Outgoing(PROGRESS, b"c/n/1", b"1", partition=0)])
    with PartitionReader(settings, "processor") as reader:
        reader.bounds(PROGRESS, 0)
    assert committed_offsets(settings, "processor", "gpuledger-processor", TELEMETRY, [0]) == {0: None}


def test_a_sink_may_read_charges_and_may_not_write_them(as_user: As) -> None:
    settings = as_user("gpuledger-sink")
    with Producer(settings, "sink") as producer:
        producer.produce_all([Outgoing(DEAD_LETTERS, b"c/n", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(CHARGES, b"c/n", b"forged")])


def test_commitments_may_be_read_from_prices_and_written_to_charges_and_nothing_else(as_user: As) -> None:
    settings = as_user("gpuledger-commitments")
    with PartitionReader(settings, "commitments") as reader:
        assert list(reader.read_to_end(PRICES, 0)) is not None
        with pytest.raises(ConfigError, match="ACL"):
            list(reader.read_range(CHARGES, 0, 0, 0) or reader.read_range(CHARGES, 1, 0, 0))
    with Producer(settings, "commitments") as producer:
        producer.produce_all([Outgoing(CHARGES, b"-/-", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(PRICES, b"prices", b"forged")])


def test_an_archive_may_read_every_input_and_write_nothing(as_user: As) -> None:
    settings = as_user("gpuledger-archive")
    with PartitionReader(settings, "archive") as reader:
        for topic in ARCHIVED:
            assert list(reader.read_to_end(topic, 0)) is not None
        with pytest.raises(ConfigError, match=r"gpu\.charges"):  # without a right it does not even know of it
            list(reader.read_to_end(CHARGES, 0))
    with Producer(settings, "archive") as producer, pytest.raises(ConfigError, match="ACL"):
        producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"forged")])


def test_an_inventory_may_say_and_read_when_nodes_lived_and_nothing_else(as_user: As) -> None:
    settings = as_user("gpuledger-inventory")
    with Producer(settings, "inventory") as producer:
        place = producer.produce_all([Outgoing(NODES, b"c/m", b"1")])[0]
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"forged")])
    with PartitionReader(settings, "inventory") as reader:
        (read,) = reader.read_range(NODES, place.partition, place.offset, place.offset)
        assert read.value == b"1"


def test_faust_reaches_the_broker_with_the_same_settings_and_reads_what_we_compress(as_user: As) -> None:
    with Producer(as_user("gpuledger-agent"), "agent") as producer:
        place = producer.produce_all([Outgoing(TELEMETRY, b"c/n", bytes(10_000))])[0]
    options = faust_options(as_user("gpuledger-processor"))
    credentials = options["broker_credentials"]
    assert "of-gpuledger" not in repr(credentials)

    async def read() -> bytes:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=options["broker"].removeprefix("kafka://"),
            security_protocol=credentials.protocol.value,
            sasl_mechanism=credentials.mechanism.value,
            sasl_plain_username=credentials.username,
            sasl_plain_password=credentials.password,
            ssl_context=credentials.ssl_context,
            group_id=None,
        )
        await consumer.start()
        try:
            where = TopicPartition(TELEMETRY, place.partition)
            consumer.assign([where])
            consumer.seek(where, place.offset)
            record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            return bytes(record.value)
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == bytes(10_000)


def test_a_wrong_password_is_said(as_user: As, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    settings = as_user("gpuledger-agent").model_copy(update={"kafka_sasl_password_file": wrong})

    def sending() -> str:
        with Producer(settings, "agent") as producer, pytest.raises(KafkaUnavailable) as refused:
            producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"1")], timeout_s=3)
        return str(refused.value)

    def listing() -> str:
        with pytest.raises(KafkaUnavailable) as refused:
            Admin(settings).topics()
        return str(refused.value)

    for trying in (sending, listing):
        said: list[str] = []
        until(partial(_says, trying, said, "Authentication failed"))  # a slow broker does not get to say it
        assert "guess" not in said[-1]


def _says(trying: Callable[[], str], said: list[str], text: str) -> bool:
    said.append(trying())
    return text in said[-1]
