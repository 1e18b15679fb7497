"""Breaches at a real Alertmanager: they arrive, are grouped, held, resolve, and stay over a restart."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpuledger.budgets.words import link_of
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.localstack import Kafka
from gpuledger.notify import courier
from gpuledger.notify.build import build
from gpuledger.notify.document import AlertmanagerTarget
from gpuledger.notify.trial import trial
from tests.support.alertmanager import AlertmanagerProcess, alertmanager
from tests.support.breaches import breach, publish_breaches
from tests.support.hooks import Hook, hook
from tests.support.kafka import create_topic
from tests.support.notifying import notifying
from tests.support.waiting import until

Unique = Callable[[str], str]
ROOT = Path(__file__).parents[2]
LINK = "GPULEDGER_BUDGETS_LINK"


@pytest.fixture
def topic(kafka: Kafka, unique: Unique) -> str:
    return create_topic(kafka, unique("breaches"))


@pytest.fixture
def people() -> Iterator[Hook]:
    with hook() as started:
        yield started


@pytest.fixture
def server(tmp_path: Path, people: Hook) -> Iterator[AlertmanagerProcess]:
    with alertmanager(tmp_path / "alertmanager", people.url) as started:
        yield started


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fires is repeated each second, not each minute."""
    monkeypatch.setattr(courier, "KEEP_EVERY_S", 1.0)


def target(server: AlertmanagerProcess) -> dict[str, object]:
    labels = {"cluster": "c1"}
    return {"name": "alertmanager", "type": "alertmanager", "url": server.url, "labels": labels}


def groups(people: Hook, status: str) -> list[set[str]]:
    """The breaches of each message that people got and that has one of that status."""
    found = []
    for hit in people.hits:
        ids = {a["labels"]["breach_id"] for a in hit.json["alerts"] if a["status"] == status}
        if ids:
            found.append(ids)
    return found


def test_breaches_of_one_budget_are_one_message_and_resolve(
    bus: BusSettings, topic: str, unique: Unique, server: AlertmanagerProcess, people: Hook
) -> None:
    with notifying(bus, topic, unique("notify"), target(server)):
        of_b = {"budget_id": "team-b-monthly"}
        first = [breach("b1"), breach("b2", threshold_ppm=1_000_000), breach("b3", **of_b)]
        publish_breaches(bus, topic, first)
        until(lambda: {"b1", "b2"} in groups(people, "firing") and {"b3"} in groups(people, "firing"))
        (alert,) = (a for a in server.alerts() if a["labels"]["breach_id"] == "b2")
        assert alert["labels"]["severity"] == "critical"
        assert alert["labels"]["cluster"] == "c1"
        assert alert["annotations"]["summary"] == "team-a has spent 80 % of team-a-monthly"
        assert alert["generatorURL"] == "https://ledger.example/breaches/1"
        publish_breaches(bus, topic, [breach("b1", 2, "resolved"), breach("b3", 2, "retracted", **of_b)])
        until(lambda: {"b1"} in groups(people, "resolved") and {"b3"} in groups(people, "resolved"))
        assert {a["labels"]["breach_id"] for a in server.alerts()} == {"b2"}


def test_an_alertmanager_that_forgot_everything_is_told_again(
    bus: BusSettings, topic: str, unique: Unique, server: AlertmanagerProcess, soon: None
) -> None:
    with notifying(bus, topic, unique("notify"), target(server)):
        publish_breaches(bus, topic, [breach("b1"), breach("b2"), breach("b2", 2, "resolved")])
        until(lambda: len(server.alerts()) == 1)
        server.kill9()
        server.start()
        until(lambda: [a["labels"]["breach_id"] for a in server.alerts()] == ["b1"])


@pytest.mark.parametrize(
    "hold", [{"acknowledged_by": "ada"}, {"silenced_until_ns": 2**62}], ids=["acknowledged", "silenced"]
)
def test_a_breach_on_hold_is_suppressed_and_its_end_is_told(
    bus: BusSettings,
    topic: str,
    unique: Unique,
    server: AlertmanagerProcess,
    people: Hook,
    soon: None,
    hold: dict[str, object],
) -> None:
    with notifying(bus, topic, unique("notify"), target(server)):
        publish_breaches(bus, topic, [breach("b1")])
        until(lambda: groups(people, "firing") == [{"b1"}])
        publish_breaches(bus, topic, [breach("b1", 2, **hold)])
        until(lambda: [a["status"]["state"] for a in server.alerts()] == ["suppressed"])
        (silence,) = server.silences()
        updated = server.alerts()[0]["updatedAt"]
        until(lambda: server.alerts()[0]["updatedAt"] > updated)  # repeated, and nobody hears of it
        assert [found["id"] for found in server.silences()] == [silence["id"]]
        publish_breaches(bus, topic, [breach("b1", 3, "resolved", **hold)])
        until(lambda: groups(people, "resolved") == [{"b1"}])
    assert groups(people, "firing") == [{"b1"}]
    assert not server.silences()


def test_a_hold_that_was_taken_back_lets_the_breach_fire_again(
    bus: BusSettings, topic: str, unique: Unique, server: AlertmanagerProcess, people: Hook
) -> None:
    with notifying(bus, topic, unique("notify"), target(server)):
        publish_breaches(bus, topic, [breach("b1", acknowledged_by="ada")])
        publish_breaches(bus, topic, [breach("b2")])
        until(lambda: groups(people, "firing") == [{"b2"}])
        publish_breaches(bus, topic, [breach("b1", 2)])
        until(lambda: {"b1", "b2"} in groups(people, "firing"))


def links() -> dict[str, str]:
    """The templates that our deployments give to budgets."""
    (config,) = [
        item
        for item in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "namespace.yaml").read_text())
        if item["kind"] == "ConfigMap"
    ]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["budgets"]["environment"]
    return {"compose": compose[LINK], "kubernetes": config["data"][LINK]}


def test_the_link_of_a_breach_shows_that_breach_alone(
    bus: BusSettings, topic: str, unique: Unique, server: AlertmanagerProcess
) -> None:
    """Alertmanager's page has the filter in braces, and asks this API for what is in them."""
    with notifying(bus, topic, unique("notify"), target(server)):
        publish_breaches(bus, topic, [breach("b1"), breach("b2")])
        until(lambda: len(server.alerts()) == 2)
    for template in links().values():
        page, _, query = link_of(template, breach("b1")).partition("/#/alerts?")
        assert urllib.parse.urlsplit(page).port == 9093
        (shown,) = urllib.parse.parse_qs(query)["filter"]
        asked = urllib.parse.urlencode({"filter": shown.removeprefix("{").removesuffix("}")})
        with urllib.request.urlopen(f"{server.url}/api/v2/alerts?{asked}", timeout=60) as answer:
            assert [one["labels"]["breach_id"] for one in json.load(answer)] == ["b1"]


def test_the_trial_of_a_target_arrives(server: AlertmanagerProcess, people: Hook) -> None:
    clock = SystemClock()
    described = AlertmanagerTarget(name="alertmanager", type="alertmanager", url=server.url)
    sender = build(described, clock)
    sender.send(trial(clock.unix_ns())[0])
    sender.close()
    until(lambda: [a["labels"]["budget"] for a in server.alerts()] == ["test"])
