"""The archiver's metrics, as Prometheus scrapes them from a running one."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from gpuledger.bus import BusSettings
from gpuledger.contract.identity import NodeKey
from gpuledger.localstack import free_port
from tests.support.children import tied
from tests.support.fleet import Node, Sender, recent_start
from tests.support.waiting import until


def test_what_was_archived_is_counted(own_bus: BusSettings, sender: Sender, tmp_path: Path) -> None:
    sent = Node(NodeKey("a", "node")).window(recent_start(10))
    sender.telemetry(sent)
    port = free_port()
    command = [sys.executable, "-m", "gpuledger", "archive", "run", str(tmp_path), "--every", "0.2"]
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": own_bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": own_bus.registry_url,
    }
    process = subprocess.Popen(tied([*command, "--metrics-port", str(port)]), env=environment)
    try:

        def metrics() -> dict[str, float]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                    lines = answer.read().decode().splitlines()
            except OSError:
                return {}
            return {
                name: float(value)
                for name, _, value in (line.rpartition(" ") for line in lines)
                if name[0] != "#"
            }

        until(lambda: metrics().get('gpuledger_archive_records_total{topic="gpu.telemetry"}', 0) >= len(sent))
        assert metrics()['gpuledger_archive_commits_total{topic="gpu.telemetry"}'] >= 1
        assert metrics()["gpuledger_archive_away"] == 0
    finally:
        process.kill()
        process.wait()
