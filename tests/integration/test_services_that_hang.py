"""Every service that reads a topic ends when it stands still or owns nothing, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuledger.bus import BusSettings
from gpuledger.contract.topics import BREACHES, CHARGES, TELEMETRY
from gpuledger.serving.watch import EXIT_STUCK
from gpuledger.warehouse import Warehouse
from tests.support.children import tied
from tests.support.waiting import PATIENCE_S

pytest_plugins = ["tests.support.line", "tests.support.warehouse"]

IMPATIENT = """
import os, threading
from gpuledger.serving.watch import Watch
pulse = Watch.pulse
Watch.pulse = lambda self, name, limit_s: pulse(self, name, 2.0)
Watch.__init__.__defaults__ = (None, os._exit, 0.1)
def stand_still(*_, **__):
    threading.Event().wait()
"""
"""What stands still for two seconds has stood still, as after minutes otherwise."""

MAIN = "\nfrom gpuledger.cli import main; main()\n"
IN_VAIN = """
import os
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.bus.membership import Membership
from gpuledger.serving.watch import Watch
Watch.__init__.__defaults__ = (None, os._exit, 0.1)
def heed(self, owned):
    if TOPIC in self._topics:
        raise KafkaUnavailable(f"{TOPIC} is nobody's")
Membership.heed = heed
"""
"""A member to whom its coordinator says, at its first look, that partitions are nobody's."""

TARGETS = """
kind: notify
targets:
- {name: hook, type: webhook, url: "http://127.0.0.1:9/", secret: {env: HOOK_SECRET}}
"""
COMMANDS = {
    "sink": ["sink", "--session-timeout", "6"],
    "breaches": ["sink", "--session-timeout", "6"],
    "notify": ["notify", "run", "--targets", "targets.yaml"],
    "archive": ["archive", "run", "archive"],
    "processor": ["processor"],
    "budgets": ["budgets", "run"],
}
TOPICS = {
    "sink": CHARGES,
    "breaches": BREACHES,
    "notify": BREACHES,
    "processor": TELEMETRY,
    "budgets": CHARGES,
}
STILL = {
    "sink": "from gpuledger.sink.source import Source; Source.poll = stand_still",
    "breaches": "from gpuledger.sink import breaches; breaches.Source = stand_still",
    "notify": "from gpuledger.notify.source import Source; Source.poll = stand_still",
    "archive": "from gpuledger.archive.archiver import Archiver; Archiver._take = stand_still",
    "processor": "from gpuledger.processor.shell import Shell; Shell.tick = stand_still",
    "budgets": "from gpuledger.processor.shell import Shell; Shell.tick = stand_still",
}
CLOSING = """
import time
from gpuledger.bus.membership import Membership
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.sink.flusher import Flusher
from gpuledger.sink.source import Source
poll = Source.poll
def fail(self, timeout_s):
    records = poll(self, timeout_s)
    if self.owned:
        time.sleep(1)  # it is seen to own them
        raise KafkaUnavailable("gone for good")
    return records
def heed(self, owned):
    if owned == 0 and hasattr(self, "owned_some"):
        raise KafkaUnavailable("partitions are nobody's")
    if owned:
        self.owned_some = True
Source.poll, Flusher.close, Membership.heed = fail, stand_still, heed
"""
"""Once it has partitions it fails, and stands still as it closes, when it has none any more."""


def ended(
    bus: BusSettings, warehouse: Warehouse, folder: Path, codes: Mapping[str, str]
) -> dict[str, tuple[int, str]]:
    """Run services beside each other, each with its code first: its exit status and what it said."""
    (folder / "targets.yaml").write_text(TARGETS)
    environment = os.environ | {
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        "GPULEDGER_WAREHOUSE_URL": str(warehouse.url),
        "HOOK_SECRET": "a key",
    }
    running = {}
    for name, code in codes.items():
        directory = folder / name
        own = {f"GPULEDGER_{one}_DATA_DIRECTORY": str(directory) for one in ("PROCESSOR", "BUDGETS")}
        running[name] = subprocess.Popen(
            tied([sys.executable, "-c", code + MAIN, *COMMANDS[name]]),
            env=environment | own,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        said = {name: process.communicate(timeout=PATIENCE_S)[0] for name, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    return {name: (process.returncode, said[name]) for name, process in running.items()}


def test_one_that_stands_still_says_where_and_ends(
    own_bus: BusSettings, warehouse: Warehouse, tmp_path: Path
) -> None:
    found = ended(own_bus, warehouse, tmp_path, {name: IMPATIENT + code for name, code in STILL.items()})
    for name, (status, said) in found.items():
        assert status == EXIT_STUCK, (name, said)
        assert "has not come round" in said, (name, said)
        assert " stand_still" in said, (name, said)


def test_one_that_owns_nothing_though_partitions_are_nobodys_ends(
    own_bus: BusSettings, warehouse: Warehouse, tmp_path: Path
) -> None:
    found = ended(
        own_bus, warehouse, tmp_path, {name: f"TOPIC = {topic!r}{IN_VAIN}" for name, topic in TOPICS.items()}
    )
    for name, (status, said) in found.items():
        assert status == EXIT_STUCK, (name, said)
        assert "nobody's" in said, (name, said)


def test_one_that_stands_still_as_it_closes_has_said_what_ended_it(
    own_bus: BusSettings, warehouse: Warehouse, tmp_path: Path
) -> None:
    (found,) = ended(own_bus, warehouse, tmp_path, {"sink": IMPATIENT + CLOSING}).values()
    status, said = found
    assert status == EXIT_STUCK, said
    assert said.index("gone for good") < said.index("thread closing has not come round")
    assert "nobody's" not in said, "who leaves is to own nothing"
    assert " stand_still" in said
