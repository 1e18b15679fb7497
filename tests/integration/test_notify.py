"""From gpu.breaches to webhooks, chat and e-mail, over real Kafka."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuledger.bus import BusSettings, Outgoing, Producer
from gpuledger.localstack import Kafka, free_port
from tests.support.breaches import breach, publish_breaches
from tests.support.hooks import Hook, hook
from tests.support.kafka import create_topic
from tests.support.notifying import notifying
from tests.support.sink import committed
from tests.support.waiting import until

Unique = Callable[[str], str]
SECRET = "a secret of the test's own"


@pytest.fixture
def topic(kafka: Kafka, unique: Unique) -> str:
    return create_topic(kafka, unique("breaches"))


@pytest.fixture
def server() -> Iterator[Hook]:
    with hook() as started:
        yield started


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return {"file": str(path)}


def webhook(server: Hook, secret: dict[str, str], name: str = "hook") -> dict[str, object]:
    return {"name": name, "type": "webhook", "url": f"{server.url}/{name}", "secret": secret}


def kinds(server: Hook, path: str = "/hook") -> list[tuple[str, str]]:
    return [
        (hit.json["type"], hit.json["data"]["breach"]["id"]) for hit in server.taken() if hit.path == path
    ]


def test_a_webhook_gets_each_change_once_signed(
    bus: BusSettings, topic: str, unique: Unique, server: Hook, secret: dict[str, str]
) -> None:
    life = [breach("b1"), breach("b1", 2, "resolved")]
    with notifying(bus, topic, unique("notify"), webhook(server, secret)):
        publish_breaches(bus, topic, [*life, *life])
        publish_breaches(bus, topic, [breach("b2")])
        until(lambda: len(server.taken()) >= 3)
    assert kinds(server) == [("breach.firing", "b1"), ("breach.resolved", "b1"), ("breach.firing", "b2")]
    hit = server.hits[0]
    signed = f"{hit.headers['webhook-id']}.{hit.headers['webhook-timestamp']}.".encode() + hit.body
    expected = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert hit.headers["webhook-signature"] == f"v1,{expected}"
    assert hit.json["data"]["breach"]["spent_nano"] == 80_000_000_000


def test_a_target_that_is_away_holds_up_nobody_and_gets_all_in_order_when_it_is_back(
    bus: BusSettings, topic: str, unique: Unique, server: Hook, secret: dict[str, str]
) -> None:
    with hook() as dead:
        dead.status = 503
        targets = (webhook(server, secret), webhook(dead, secret, "dead"))
        with notifying(bus, topic, unique("notify"), *targets):
            publish_breaches(bus, topic, [breach(f"b{n}") for n in range(7)])
            until(lambda: len(server.taken()) == 7)
            until(lambda: len(dead.hits) >= 2)
            assert not dead.taken()
            dead.status = 200
            until(lambda: len(dead.taken()) == 7)
        assert [found for _, found in kinds(dead, "/dead")] == [f"b{n}" for n in range(7)]
        first = [hit.headers["webhook-id"] for hit in dead.hits[:2]]
        assert first[0] == first[1]


def test_what_was_not_delivered_when_it_ended_is_delivered_by_the_next(
    bus: BusSettings, topic: str, unique: Unique, server: Hook, secret: dict[str, str]
) -> None:
    group, target = unique("notify"), webhook(server, secret)
    with notifying(bus, topic, group, target):
        publish_breaches(bus, topic, [breach("b1")])
        until(lambda: committed(bus, topic, f"{group}-hook", 1) == 1)
        server.status = 500
        publish_breaches(bus, topic, [breach("b1", 2, "resolved"), breach("b2")])
        until(lambda: len(server.hits) > 1)
    server.status = 200
    with notifying(bus, topic, group, target):
        until(lambda: len(server.taken()) == 3)
    assert kinds(server) == [("breach.firing", "b1"), ("breach.resolved", "b1"), ("breach.firing", "b2")]


def test_a_notice_that_the_target_will_never_take_and_bytes_that_are_no_breach_hold_up_nothing(
    dead_letter_topic: str, bus: BusSettings, topic: str, unique: Unique, server: Hook, secret: dict[str, str]
) -> None:
    server.status = 400
    with notifying(bus, topic, unique("notify"), webhook(server, secret)):
        publish_breaches(bus, topic, [breach("b1")])
        until(lambda: len(server.hits) == 1)
        server.status = 200
        with Producer(bus, "test") as producer:
            producer.produce_all([Outgoing(topic, b"b", b"\0"), Outgoing(topic, b"b", None)])
        publish_breaches(bus, topic, [breach("b2")])
        until(lambda: kinds(server) == [("breach.firing", "b2")])
    assert len(server.hits) == 2


def test_a_target_that_is_new_hears_of_what_fires_once(
    bus: BusSettings, topic: str, unique: Unique, server: Hook, secret: dict[str, str]
) -> None:
    group, target = unique("notify"), webhook(server, secret)
    publish_breaches(bus, topic, [breach("b1")])
    with notifying(bus, topic, group, target):
        until(lambda: len(server.taken()) == 1)
        until(lambda: committed(bus, topic, f"{group}-hook", 1) == 1)
    with notifying(bus, topic, group, target):
        publish_breaches(bus, topic, [breach("b2")])
        until(lambda: len(server.taken()) == 2)
    assert kinds(server) == [("breach.firing", "b1"), ("breach.firing", "b2")]


def test_a_chat_gets_a_message_that_calls_nobody_and_only_of_its_budgets(
    bus: BusSettings, topic: str, unique: Unique, server: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_URL", f"{server.url}/services/T0/B0/x")
    chat = {"name": "chat", "type": "slack", "url": {"env": "CHAT_URL"}, "budgets": ["team-a-*"]}
    with notifying(bus, topic, unique("notify"), chat):
        loud = breach("b2", message="<!channel> 100 % & more")
        publish_breaches(bus, topic, [breach("b1", budget_id="team-b"), loud])
        until(lambda: len(server.taken()) == 1)
    (hit,) = server.hits
    assert hit.path == "/services/T0/B0/x"
    assert "&lt;!channel&gt; 100 % &amp; more" in hit.json["text"]
    assert "pod ml/train-0: 50.00 EUR, 4.00 GPU-hours" in hit.body.decode()


def test_no_secret_comes_into_the_log(
    bus: BusSettings,
    topic: str,
    unique: Unique,
    server: Hook,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CHAT_URL", f"{server.url}/services/very-secret")
    monkeypatch.setenv("GONE_URL", f"http://127.0.0.1:{free_port()}/services/very-secret")
    caplog.set_level("INFO")
    chats = [
        {"name": name, "type": "slack", "url": {"env": f"{name.upper()}_URL"}} for name in ("chat", "gone")
    ]
    with notifying(bus, topic, unique("notify"), *chats):
        publish_breaches(bus, topic, [breach("b1")])
        until(lambda: "target away" in caplog.text and "notice delivered" in caplog.text)
    shown = [str(vars(record)) + record.getMessage() for record in caplog.records]
    assert not [line for line in shown if "very-secret" in line]
