"""The registry's client and dead letters against a real registry and broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from typer.testing import CliRunner

from gpuledger.bus import (
    BusSettings,
    DeadLetters,
    Incoming,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    register_all,
)
from gpuledger.bus.cli import schemas_app
from gpuledger.bus.dead_letters import MAX_WHOLE_BYTES
from gpuledger.bus.registry import UNKNOWN_FOR_NS
from gpuledger.contract.clock import ManualClock, SystemClock
from gpuledger.contract.errors import BadRecord, ConfigError, Refused, RegistryUnavailable
from gpuledger.contract.records import DeadLetter, decode
from gpuledger.contract.schemas import canonical_text, schema_text
from gpuledger.contract.topics import CHARGES, DEAD_LETTERS, RECORDS_OF_TOPIC, subject_of
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry, free_port
from tests.support.kafka import create_topic
from tests.support.waiting import PATIENCE_S

Unique = Callable[[str], str]
UNKNOWN_ID = 2_000_000_000


def _schema(*fields: dict[str, object]) -> str:
    return canonical_text({"type": "record", "name": "Thing", "namespace": "test", "fields": list(fields)})


OLD = _schema({"name": "a", "type": "long"})
NEWER = _schema({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": ""})
BREAKING = _schema({"name": "a", "type": "long"}, {"name": "b", "type": "string"})


def test_a_registered_schema_is_found_by_its_id_as_it_was_written(bus: BusSettings, unique: Unique) -> None:
    with SchemaRegistry(bus) as writer, SchemaRegistry(bus) as reader:
        schema_id = writer.register(unique("thing"), OLD)
        assert json.loads(reader.schema_text(schema_id)) == json.loads(OLD)
        assert reader.schema(schema_id)["name"] == "Thing"


def test_an_id_is_asked_for_once(bus: BusSettings, unique: Unique) -> None:
    with SchemaRegistry(bus) as writer, SchemaRegistry(bus) as reader:
        schema_id = writer.register(unique("thing"), OLD)
        for _ in range(23):
            reader.schema(schema_id)
        assert reader.lookups == 1


def test_registering_again_gives_the_same_id_and_no_new_version(bus: BusSettings, unique: Unique) -> None:
    subject = unique("thing")
    with SchemaRegistry(bus) as first, SchemaRegistry(bus) as second:
        assert first.register(subject, OLD) == second.register(subject, OLD) == second.find(subject, OLD)
        assert second.versions(subject) == [1]
        assert second.find(subject, NEWER) is None
        assert second.versions(unique("nothing")) == []


def test_an_unknown_id_is_asked_for_once_and_again_only_after_a_while(bus: BusSettings) -> None:
    clock = ManualClock()
    with SchemaRegistry(bus, clock) as registry:
        for _ in range(23):
            with pytest.raises(BadRecord, match="unknown_schema"):
                registry.schema(UNKNOWN_ID)
        assert registry.lookups == 1
        clock.advance(UNKNOWN_FOR_NS)
        with pytest.raises(BadRecord, match="knows no schema 2000000000"):
            registry.schema(UNKNOWN_ID)
        assert registry.lookups == 2


def test_a_change_that_is_not_backward_compatible_is_refused(bus: BusSettings, unique: Unique) -> None:
    subject = unique("thing")
    with SchemaRegistry(bus) as registry:
        assert registry.compatibility() == "BACKWARD"
        assert registry.check_compatible(subject, BREAKING).compatible  # nothing is there yet
        registry.register(subject, OLD)
        assert not registry.check_compatible(subject, BREAKING).compatible
        with pytest.raises(Refused, match="/fields/1"):
            registry.register(subject, BREAKING)
        assert registry.check_compatible(subject, NEWER).compatible
        registry.register(subject, NEWER)
        assert registry.versions(subject) == [1, 2]


def test_a_subject_without_a_rule_gets_one_and_a_stricter_one_stays(new_registry: Registry) -> None:
    new_registry.start()
    url = new_registry.url
    httpx.put(f"{url}/config", json={"compatibility": "NONE"}, timeout=60).raise_for_status()
    with SchemaRegistry(BusSettings(registry_url=url)) as registry:
        for subject in ("loose", "strict"):
            registry.register(subject, OLD)
        httpx.put(f"{url}/config/strict", json={"compatibility": "FULL"}, timeout=60).raise_for_status()
        assert [registry.compatibility(subject) for subject in ("loose", "strict")] == ["NONE", "FULL"]
        for subject in ("loose", "strict"):
            registry.require_backward(subject)
        assert [registry.compatibility(subject) for subject in ("loose", "strict")] == ["BACKWARD", "FULL"]
        with pytest.raises(Refused):
            registry.register("loose", BREAKING)


def test_what_is_no_schema_is_refused(bus: BusSettings, unique: Unique) -> None:
    with SchemaRegistry(bus) as registry, pytest.raises(Refused):
        registry.register(unique("thing"), '{"type": "nonsense"}')


def test_a_registry_that_is_away_is_retried_and_nothing_is_lost(
    new_registry: Registry, unique: Unique
) -> None:
    new_registry.start()
    settings = BusSettings(registry_url=new_registry.url)
    with SchemaRegistry(settings) as writer:
        schema_id = writer.register(unique("thing"), OLD)
    new_registry.kill9()
    back = threading.Timer(0.5, new_registry.restart)
    back.start()
    with SchemaRegistry(settings, retry_for_s=PATIENCE_S) as reader:
        assert json.loads(reader.schema_text(schema_id)) == json.loads(OLD)
    back.join()


def test_a_registry_that_stays_away_is_an_io_error_and_no_bad_record() -> None:
    settings = BusSettings(registry_url=f"http://127.0.0.1:{free_port()}/apis/ccompat/v7")
    clock = ManualClock()
    with SchemaRegistry(settings, clock, retry_for_s=30.0) as registry:
        with pytest.raises(RegistryUnavailable, match="ConnectionRefusedError"):
            registry.schema(1)
        assert 20e9 < clock.boot_ns() <= 30e9  # the pauses took the time that it was given
        with pytest.raises(RegistryUnavailable):
            registry.register("thing", OLD)


class _Answering(BaseHTTPRequestHandler):
    """Any HTTP server that is no registry: a proxy, a login page."""

    status = 404

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"<html>nothing here</html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def no_registry() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, RegistryUnavailable), (200, RegistryUnavailable), (503, RegistryUnavailable), (403, ConfigError)],
)
def test_something_else_that_answers_there_never_makes_a_record_bad(
    no_registry: str, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(_Answering, "status", status)
    with (
        SchemaRegistry(BusSettings(registry_url=no_registry), ManualClock(), retry_for_s=1.0) as registry,
        pytest.raises(error),
    ):
        registry.schema(1)


def test_every_schema_of_the_contract_is_registered_under_topic_and_record_name(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", registry.url)
    runner = CliRunner()
    made = json.loads(runner.invoke(schemas_app, ["register", "--json"]).stdout)
    expected = {
        subject_of(topic, record) for topic, records in RECORDS_OF_TOPIC.items() for record in records
    }
    assert set(made) == expected
    assert json.loads(runner.invoke(schemas_app, ["register", "--json"]).stdout) == made
    checked = json.loads(runner.invoke(schemas_app, ["check", "--json"]).stdout)
    assert {row["rule"] for row in checked["schemas"]} == {"BACKWARD"}
    assert {row["subject"]: row["id"] for row in checked["schemas"]} == made
    assert "gpu.charges-io.gpuledger.ChargeSet" in runner.invoke(schemas_app, ["check"]).stdout


def test_check_refuses_a_contract_that_the_registry_would_not_take(
    new_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_registry.start()
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", new_registry.url)
    parsed = json.loads(schema_text("ChargeSet"))
    other = {**parsed, "fields": [{"name": "a_field_of_old", "type": "long"}]}
    with SchemaRegistry(BusSettings(registry_url=new_registry.url)) as registry:
        registry.register(subject_of(CHARGES, "ChargeSet"), canonical_text(other))
    result = CliRunner().invoke(schemas_app, ["check"])
    assert isinstance(result.exception, Refused)
    assert "gpu.charges-io.gpuledger.ChargeSet" in str(result.exception)
    assert "gpu.nodes" not in str(result.exception)


def _refused(
    value: bytes | None, offset: int, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> tuple[Incoming, BadRecord]:
    record = Incoming("gpu.telemetry", 3, offset, 1_700_000_000_123, b"c/n", value, headers)
    return record, BadRecord("truncated", "a varint is cut off", "events.time_ns", 17)


def test_a_refused_record_is_kept_whole_or_by_its_offset_where_it_is_large(
    new_kafka: Kafka, bus: BusSettings
) -> None:
    new_kafka.start()
    create_topic(new_kafka, DEAD_LETTERS, max_message_bytes=str(8 << 20))
    settings = bus.model_copy(update={"kafka_bootstrap": new_kafka.bootstrap})
    small = _refused(b"\x00\xff\xfe", 41, (("x", b"\x00\x01"), ("y", None)))
    large = _refused(bytes(MAX_WHOLE_BYTES + 1), 42)
    tombstone = _refused(None, 43)
    with Producer(settings, "test") as producer, SchemaRegistry(settings) as registry:
        places = DeadLetters(producer, registry, SystemClock(), "processor").publish(
            [small, large, tombstone]
        )
        assert [place.offset for place in places] == [0, 1, 2]
        with PartitionReader(settings, "test") as reader:
            read = list(reader.read_to_end(DEAD_LETTERS, 0))
        letters = []
        for record in read:
            assert record.key == b"c/n"
            schema_id, body = unframe(record.value or b"")
            assert registry.schema(schema_id)["name"] == "DeadLetter"
            letters.append(decode(DeadLetter, body))
    whole, by_place, empty = letters
    assert (whole.value, whole.value_bytes, whole.key) == (b"\x00\xff\xfe", 3, b"c/n")
    assert (whole.reason, whole.stage) == ("truncated", "processor")
    assert "events.time_ns: a varint is cut off at byte 17" in whole.detail
    assert [(item.name, item.value) for item in whole.headers] == [("x", b"\x00\x01"), ("y", None)]
    assert (whole.source_topic, whole.source_partition, whole.source_offset) == ("gpu.telemetry", 3, 41)
    assert whole.append_ns == 1_700_000_000_123_000_000
    assert (by_place.value, by_place.value_bytes, by_place.source_offset) == (None, MAX_WHOLE_BYTES + 1, 42)
    assert (empty.value, empty.value_bytes) == (None, 0)


def test_registering_all_gives_one_id_for_each_record(bus: BusSettings) -> None:
    with SchemaRegistry(bus) as registry:
        ids = register_all(registry)
    assert sorted(ids) == sorted(record for records in RECORDS_OF_TOPIC.values() for record in records)
    assert len(set(ids.values())) == len(ids)


def test_a_letter_is_not_published_while_the_registry_is_away(bus: BusSettings) -> None:
    away = bus.model_copy(update={"registry_url": f"http://127.0.0.1:{free_port()}"})
    with (
        Producer(bus, "test") as producer,
        SchemaRegistry(away, ManualClock(), retry_for_s=1.0) as registry,
        pytest.raises(RegistryUnavailable),
    ):
        DeadLetters(producer, registry, SystemClock(), "processor").publish([_refused(b"x", 1)])


def test_a_framed_record_is_of_the_registered_schema(kafka: Kafka, bus: BusSettings, unique: Unique) -> None:
    from gpuledger.bus import framed

    topic = create_topic(kafka, unique("framed"))
    dead = DeadLetter(reason="x", source_topic="t", source_partition=0, source_offset=0)
    with (
        SchemaRegistry(bus) as registry,
        Producer(bus, "test") as producer,
        PartitionReader(bus, "test") as reader,
    ):
        producer.produce_all([Outgoing(topic, b"k", framed(registry, dead))])
        (record,) = reader.read_to_end(topic, 0)
        schema_id, body = unframe(record.value or b"")
        assert canonical_text(registry.schema(schema_id)) == schema_text("DeadLetter")
        assert decode(DeadLetter, body) == dead
