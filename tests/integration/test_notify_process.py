"""Notify as a process that is killed, and the commands that try a document out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpuledger.bus import BusSettings
from gpuledger.localstack import Kafka
from gpuledger.notify.cli import app
from tests.support.breaches import breach, publish_breaches
from tests.support.children import asked_to_end, tied
from tests.support.hooks import Hook, hook
from tests.support.kafka import create_topic
from tests.support.waiting import until

RUN = (
    "import sys; from pathlib import Path; from gpuledger.bus import BusSettings;"
    "from gpuledger.notify import NotifyOptions, read_targets, run;"
    "targets = read_targets(Path(sys.argv[1]).read_text(), sys.argv[1]);"
    "run(NotifyOptions(BusSettings.load(), targets, sys.argv[2], sys.argv[3], session_timeout_s=6))"
)


def document(folder: Path, server: Hook) -> Path:
    path = folder / "targets.yaml"
    hooks = {"name": "hook", "type": "webhook", "url": server.url, "secret": {"env": "HOOK_SECRET"}}
    path.write_text(yaml.safe_dump({"kind": "notify", "targets": [hooks]}))
    return path


def started(bus: BusSettings, targets: Path, topic: str, group: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        "HOOK_SECRET": "a key",
    }
    command = [sys.executable, "-c", RUN, str(targets), topic, group]
    return subprocess.Popen(tied(command), env=environment)


def test_after_kill_9_another_member_delivers_what_is_left(
    kafka: Kafka, bus: BusSettings, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = create_topic(kafka, unique("breaches")), unique("notify")
    with hook() as server:
        targets = document(tmp_path, server)
        first = started(bus, targets, topic, group)
        try:
            publish_breaches(bus, topic, [breach(f"b{n}") for n in range(3)])
            until(lambda: len(server.taken()) == 3)
            server.status = 503
            publish_breaches(bus, topic, [breach(f"b{n}", 2, "resolved") for n in range(3)])
            until(lambda: len(server.hits) > 3)
        finally:
            first.kill()
            first.wait()
        server.status = 200
        second = started(bus, targets, topic, group)
        try:
            until(lambda: len({hit.headers["webhook-id"] for hit in server.taken()}) == 6)
            assert asked_to_end(second) == 0
        finally:
            second.kill()
            second.wait()
        over = [hit.json["data"]["breach"]["id"] for hit in server.taken() if "resolved" in hit.json["type"]]
    # once each, but where a machine stood still for longer than the session: then it begins anew
    assert list(dict.fromkeys(over)) == ["b0", "b1", "b2"]


def test_a_document_can_be_checked_and_tried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a key")
    with hook() as server:
        path = document(tmp_path, server)
        checked = CliRunner().invoke(app, ["check", "--targets", str(path)])
        assert (checked.exit_code, checked.output) == (0, "hook: webhook, budgets *\n")
        assert not server.hits
        tried = CliRunner().invoke(app, ["test", "--targets", str(path)])
        assert (tried.exit_code, tried.output) == (0, "hook: delivered\n")
        assert [hit.json["type"] for hit in server.hits] == ["breach.firing", "breach.resolved"]
        server.status = 401
        failed = CliRunner().invoke(app, ["test", "--targets", str(path)])
        assert failed.exit_code == 1
        assert "hook: failed, the webhook answered 401" in failed.output
