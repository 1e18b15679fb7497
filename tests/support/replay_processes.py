"""`gpuledger replay --distributed` and its workers as processes, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gpuledger.replay.request import Request
from tests.support.children import tied
from tests.support.processors import SESSION_S, SILENCE_S
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
HELD = "tests.support.replay_held"
"""Instead of gpuledger: its workers stand still once they have charged something, however fast they are."""


@dataclass(slots=True)
class Processes:
    """The command and its workers as processes of their own."""

    request: Request
    directory: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str, module: str = "gpuledger") -> subprocess.Popen[bytes]:
        number = len(self.started)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}",
            "GPULEDGER_KAFKA_BOOTSTRAP": self.request.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.request.bus.registry_url,
            "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
            "GPULEDGER_PROCESSOR_SESSION_TIMEOUT_S": str(SESSION_S),
            "GPULEDGER_PROCESSOR_TAKE_RECORDS": "4",  # many rounds, to be killed between them
            "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self.directory / f"faust{number}"),
        }
        with (self.directory / f"{number}.log").open("wb") as log:
            command = tied([sys.executable, "-m", module, *arguments])
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def replay(self, state: Path, *more: str, module: str = "gpuledger") -> subprocess.Popen[bytes]:
        times = [
            datetime.fromtimestamp(ns / 10**9, UTC).isoformat()
            for ns in (self.request.from_ns, self.request.to_ns)
        ]
        return self.start(
            *("replay", "--from", times[0], "--to", times[1], "--distributed", "--state", str(state)),
            *more,
            module=module,
        )

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            logs = [path.read_text()[-2000:] for path in sorted(self.directory.glob("*.log"))]
            failed = [one.args for one in self.started if one.poll() not in (None, 0, -9)]
            assert not failed, f"{failed}\n" + "\n----\n".join(logs)
            assert time.monotonic() < deadline, f"not in {PATIENCE_S} s: {what}\n" + "\n----\n".join(logs)
            time.sleep(0.1)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
