"""Debian's Alertmanager as a process, which tells a webhook of its groups."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gpuledger.localstack import free_port
from tests.support.children import tied
from tests.support.waiting import until


class AlertmanagerProcess:
    """Started with `start`; `kill9` and `start` again is a restart that forgets all alerts."""

    def __init__(self, directory: Path, receiver: str) -> None:
        self._directory = directory
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "alertmanager.yml").write_text(
            yaml.safe_dump(
                {
                    "route": {
                        "receiver": "people",
                        "group_by": ["alertname", "budget"],
                        "group_wait": "200ms",
                        "group_interval": "500ms",
                        "repeat_interval": "1h",
                    },
                    "receivers": [
                        {"name": "people", "webhook_configs": [{"url": receiver, "send_resolved": True}]}
                    ],
                }
            )
        )

    def start(self) -> None:
        command = ["prometheus-alertmanager", f"--config.file={self._directory / 'alertmanager.yml'}"]
        command += [f"--storage.path={self._directory / 'data'}", "--cluster.listen-address="]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(tied(command), stdout=log, stderr=log)
        until(self._ready)

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.loads(answer.read())

    def alerts(self) -> list[dict[str, Any]]:
        return list(self.get("/api/v2/alerts"))

    def silences(self) -> list[dict[str, Any]]:
        found = self.get("/api/v2/silences")
        return [silence for silence in found if silence["status"]["state"] == "active"]

    def _ready(self) -> bool:
        try:
            return bool(self.get("/api/v2/status"))
        except OSError:
            return False


@contextmanager
def alertmanager(directory: Path, receiver: str) -> Iterator[AlertmanagerProcess]:
    """A running Alertmanager, gone afterwards."""
    server = AlertmanagerProcess(directory, receiver)
    server.start()
    try:
        yield server
    finally:
        server.kill9()
