"""Processor workers as processes of their own, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpuledger.bus import BusSettings, committed_offsets
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.contract.topics import TELEMETRY
from tests.support.children import asked_to_end, tied

SILENCE_S = 3
SESSION_S = 10  # a machine that lets a worker wait for some seconds is no reason to give its work away


class Workers:
    """Starts workers of one application, and ends those that a test has left."""

    def __init__(self, bus: BusSettings, application: str, directory: Path) -> None:
        self.bus = bus
        self.application = application
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, silence_s: int = SILENCE_S, code: str | None = None) -> subprocess.Popen[bytes]:
        """One more worker; its log is kept beside the others'. ``code``: run that instead of the command."""
        number = len(self._processes)
        environment = {
            **os.environ,
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_PROCESSOR_APPLICATION": self.application,
            "GPULEDGER_PROCESSOR_SILENCE_S": str(silence_s),
            "GPULEDGER_PROCESSOR_MARK_INTERVAL_S": "1",
            "GPULEDGER_PROCESSOR_SESSION_TIMEOUT_S": str(SESSION_S),
            "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self._directory / f"faust{number}"),
        }
        with self.log(number).open("wb") as log:
            process = subprocess.Popen(
                tied([sys.executable, *(("-c", code) if code else ("-m", "gpuledger.processor"))]),
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def log(self, number: int) -> Path:
        """Where the worker of that number writes."""
        return self._directory / f"worker{number}.log"

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9."""
        process.kill()
        process.wait()

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM; its exit code."""
        return asked_to_end(process)

    def end(self) -> None:
        """End all that still run."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)

    def logs(self) -> str:
        """What the workers said, for a failing test."""
        parts = [self.log(number).read_text()[-3000:] for number in range(len(self._processes))]
        return "\n----\n".join(parts)

    def committed(self, partition: int) -> int | None:
        """The offset that the application would go on from."""
        try:
            return committed_offsets(self.bus, "test", self.application, TELEMETRY, [partition])[partition]
        except KafkaUnavailable:  # a broker just started has no coordinator yet
            return None

    def await_that(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until a condition holds; fails with the workers' logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not in {seconds} s: {what}\n{self.logs()}"
            time.sleep(0.25)
