"""`gpuledger dead-letters`: what was refused is found, shown, and its mended copy counts, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.bus import (
    BusSettings,
    DeadLetters,
    Incoming,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    framed,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import BadRecord, GpuledgerError, exit_status
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch
from gpuledger.contract.revision import Revision
from gpuledger.deadletters import cli
from gpuledger.deadletters.book import Retry, place_from
from gpuledger.deadletters.notes import note
from gpuledger.deadletters.reading import read_book
from gpuledger.localstack import Kafka, Registry
from gpuledger.pricing import Prices, Teams
from tests.support.fleet import PRICES, WINDOW_NS, Node, Sender, differences, ledger, read_all, recent_start
from tests.support.kafka import STACK_DIRECTORY
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

Command = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def own_bus(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    """A Kafka of these tests alone with its topics, and the run's registry. Each test has its own node."""
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as kafka:
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=1, replication=1)
        with SchemaRegistry(bus) as schemas:
            register_all(schemas)
        yield bus


@pytest.fixture
def sender(own_bus: BusSettings) -> Iterator[Sender]:
    sender = Sender(own_bus)
    yield sender
    sender.close()


@pytest.fixture
def workers(own_bus: BusSettings, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(own_bus, "processor-mending", tmp_path)
    yield workers
    workers.end()


@pytest.fixture
def command(own_bus: BusSettings) -> Command:
    """Runs `gpuledger dead-letters ...`: its exit code, and its JSON or text."""
    environment = {
        "GPULEDGER_KAFKA_BOOTSTRAP": own_bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": own_bus.registry_url,
    }

    def run(*arguments: str) -> tuple[int, Any]:
        done = CliRunner(env=environment).invoke(cli.app, arguments)
        if isinstance(done.exception, GpuledgerError):
            return exit_status(done.exception), str(done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


class Refusing:
    """Puts records into gpu.telemetry, and dead letters of them into theirs."""

    def __init__(self, bus: BusSettings, sender: Sender) -> None:
        self._bus = bus
        self._sender = sender

    def refuse(self, message: Outgoing, reason: str) -> str:
        """The record's place as the command has it."""
        placed = self._sender.send(message)
        record = Incoming(*placed, SystemClock().unix_ns() // 1_000_000, *message[1:4])
        with Producer(self._bus, "test") as producer, SchemaRegistry(self._bus) as registry:
            letters = DeadLetters(producer, registry, SystemClock(), "processor")
            letters.publish([(record, BadRecord(reason, "said so"))])
        return f"{placed.topic}/{placed.partition}/{placed.offset}"


@pytest.fixture
def refusing(own_bus: BusSettings, sender: Sender) -> Refusing:
    return Refusing(own_bus, sender)


def test_a_mended_copy_restates_its_window_and_is_sent_once(
    own_bus: BusSettings, sender: Sender, workers: Workers, command: Command, tmp_path: Path
) -> None:
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "mended"))
    keyframe, calls, samples = node.window(start)
    assert isinstance(keyframe, Holdings)
    assert isinstance(calls, EventBatch)
    assert isinstance(samples, SampleBatch)
    sender.telemetry([keyframe])
    refused = sender.unreadable(calls)
    sender.telemetry([samples])
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    workers.start()
    end = refused.offset + 2
    workers.await_that(lambda: workers.committed(0) == end, PATIENCE_S, "acknowledged")
    place = f"gpu.telemetry/0/{refused.offset}"

    code, found = command("list", "--waiting", "--node", "mended", "--json")
    assert code == 0
    assert [(one["record"], one["state"], one["sequence"]) for one in found["letters"]] == [
        (place, "waiting", 1)
    ]
    code, shown = command("show", place, "--json")
    assert code == 0
    assert shown["body"] is None
    assert shown["value"] == (sender.outgoing(calls).value or b"")[:-3].hex()
    code, text = command("show", place)
    assert (code, "can not be decoded" in text, "gpuledger-sequence: 1" in text) == (0, True, True)

    code, outcome = command("retry", place, "--json")
    assert code == 1
    assert "it would be refused again" in outcome["records"][0]["why_not"]
    mended = tmp_path / "mended"
    mended.write_bytes(sender.outgoing(calls).value or b"")
    assert command("retry", place, "--edit", str(mended), "--dry-run")[0] == 0
    code, outcome = command("retry", place, "--edit", str(mended), "--json")
    assert (code, outcome["records"][0]["copy"]) == (0, f"gpu.telemetry/0/{end}")
    workers.await_that(lambda: workers.committed(0) == end + 1, PATIENCE_S, "the copy is acknowledged")

    got = ledger(own_bus).sets[node.key, start]
    assert (got.state, got.inputs) == ("complete", 4)
    window = NodeWindow(
        *node.key, start, WINDOW_NS, Revision(0, 4, 0, 1), state="complete", holdings=[keyframe],
        events=[calls], samples=[samples],
    )  # fmt: skip
    assert not differences(got, charge_window(window, Prices([PRICES]), Teams()).to_record())

    code, outcome = command("retry", place, "--edit", str(mended), "--json")
    assert (code, outcome["records"][0]["copy"]) == (1, None)
    assert outcome["records"][0]["why_not"] == f"it was retried: its copy is gpu.telemetry/0/{end}"
    assert command("list", "--waiting", "--node", "mended", "--json")[1]["letters"] == []
    assert command("retry", "--node", "mended", "--yes", "--json") == (0, {"dry_run": False, "records": []})
    assert read_all(own_bus, topics.TELEMETRY)[-1].offset == end


def test_a_record_too_large_for_a_letter_is_read_from_its_topic(
    own_bus: BusSettings, sender: Sender, refusing: Refusing, command: Command
) -> None:
    message = sender.outgoing(Node(NodeKey("c", "large"), events=300_000).calls(recent_start(30)))
    place = refusing.refuse(message, "unknown_schema")
    code, shown = command("show", place, "--json")
    assert (code, shown["value_bytes"] > 1 << 20, shown["body_is"]) == (0, True, "EventBatch")
    assert command("retry", "--reason", "unknown_schema", "--node", "large", "--yes")[0] == 0
    *_, copy = read_all(own_bus, topics.TELEMETRY)
    assert copy.value == message.value
    assert RecordHeaders.from_kafka(copy.key, copy.headers).mend == 1


def test_a_copy_that_was_sent_and_not_told_of_is_not_sent_again(
    own_bus: BusSettings, sender: Sender, refusing: Refusing, command: Command
) -> None:
    message = sender.outgoing(Node(NodeKey("c", "died")).calls(recent_start(30)))
    places = [refusing.refuse(message, "unknown_schema")]
    other = sender.outgoing(Node(NodeKey("c", "died"), epoch_ns=6).calls(recent_start(30)))
    places.append(refusing.refuse(other, "unknown_schema"))
    with PartitionReader(own_bus, "test") as reader, SchemaRegistry(own_bus) as registry:
        for place in places:  # as who died before he sent them
            refusal = read_book(reader, registry).at(place_from(place))
            begun = note(refusal.letter, Retry(SystemClock().unix_ns(), None))
            sender.send(Outgoing(topics.DEAD_LETTERS, b"c/died", framed(registry, begun)))
    headers = RecordHeaders.from_kafka(message.key, message.headers)
    sent = sender.send(message._replace(headers=tuple(replace(headers, mend=1).to_kafka())))
    assert {one["state"] for one in command("list", "--node", "died", "--json")[1]["letters"]} == {"retrying"}
    code, outcome = command("retry", *places, "--json")
    assert code == 0
    assert [one["copy"] for one in outcome["records"]] == [
        f"gpu.telemetry/0/{offset}" for offset in (sent.offset, sent.offset + 1)
    ]
    assert read_all(own_bus, topics.TELEMETRY)[-1].offset == sent.offset + 1


def test_a_record_of_a_wrong_clock_goes_to_the_window_that_its_mended_body_names(
    own_bus: BusSettings, sender: Sender, refusing: Refusing, command: Command, tmp_path: Path
) -> None:
    start = recent_start(30)
    far = sender.outgoing(Node(NodeKey("c", "far")).calls(start + (1 << 55) // WINDOW_NS * WINDOW_NS))
    place = refusing.refuse(far, "ahead_of_time")
    code, outcome = command("retry", place, "--json")
    assert (code, "--edit" in outcome["records"][0]["why_not"]) == (1, True)
    body = tmp_path / "body.json"
    assert command("show", place, "--mendable", str(body))[0] == 0
    fields = json.loads(body.read_text())
    fields["time_ns"] = [time - fields["header"]["window_start_ns"] + start for time in fields["time_ns"]]
    fields["header"]["window_start_ns"] = start
    body.write_text(json.dumps(fields))
    assert command("retry", place, "--edit", str(body))[0] == 0
    *_, copy = read_all(own_bus, topics.TELEMETRY)
    headers = RecordHeaders.from_kafka(copy.key, copy.headers)
    assert (headers.window_start_ns, headers.mend, headers.kind) == (start, 1, Kind.EVENTS)


def test_what_can_not_be_retried_says_why(
    sender: Sender, refusing: Refusing, command: Command, tmp_path: Path
) -> None:
    node = Node(NodeKey("c", "n"))
    why = {}
    for reason in ("window_full", "retention", "inputs_expired", "too_old"):
        place = refusing.refuse(sender.outgoing(node.calls(recent_start(30))), reason)
        code, outcome = command("retry", place, "--json")
        assert code == 1
        why[reason] = outcome["records"][0]["why_not"]
    assert len(set(why.values())) == 4
    old = refusing.refuse(sender.outgoing(node.calls(recent_start(9 * 8640))), "unknown_schema")
    assert "8 days ago" in command("retry", old)[1]
    prices = refusing.refuse(Outgoing(topics.PRICES, b"prices", b"junk", (), 0), "bad_frame")
    assert "gpuledger config apply" in command("retry", prices)[1]
    junk = tmp_path / "junk"
    junk.write_bytes(b"{}")
    good = refusing.refuse(sender.outgoing(node.calls(recent_start(30))), "truncated")
    assert "the mended body is no EventBatch" in command("retry", good, "--edit", str(junk))[1]
    junk.write_bytes(b"junk")
    assert "neither JSON nor a value" in command("retry", good, "--edit", str(junk))[1]


def test_a_mistake_in_the_call_is_said_and_nothing_is_sent(command: Command) -> None:
    for arguments in (
        ["show", "gpu.telemetry/0/7777"],
        ["show", "nonsense"],
        ["retry"],
        ["list", "--since", "x"],
    ):
        code, text = command(*arguments)
        assert (code, bool(text)) == (2, True), arguments
    found = command("list", "--node", "nobody", "--json")
    assert found == (0, {"letters": [], "found": 0, "unreadable_letters": 0})


def test_a_statement_about_a_node_is_sent_again_to_its_partition(
    own_bus: BusSettings, sender: Sender, refusing: Refusing, command: Command
) -> None:
    node = Node(NodeKey("c", "n"))
    with SchemaRegistry(own_bus) as registry:
        value = framed(registry, node.lifetime(recent_start(30)))
    place = refusing.refuse(Outgoing(topics.NODES, b"junk", value, (), 0), "unknown_schema")
    assert command("retry", place)[0] == 0
    *_, copy = read_all(own_bus, topics.NODES)
    assert (copy.key, copy.value) == (b"c/n/i-n", value)
