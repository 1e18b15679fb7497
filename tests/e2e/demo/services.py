"""The demo's processes, from Kafka to Alertmanager. All real, all on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from gpuledger.localstack import Kafka, Registry, free_port
from tests.support.children import tied

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ROOT / "deploy" / "demo"
GPULEDGER = [sys.executable, "-m", "gpuledger"]
BEHIND = ["nice", "-n", "5"]  # who tells people comes after who watches the GPUs, where a core is short
READY_S = (
    60  # the slowest part compiles its probes or opens its data in some seconds; a busy machine needs more
)
STOP_S = 20  # the agent flushes what it holds; the processor leaves its group


class DemoError(Exception):
    """A part of the demo did not do what it should; says which, and where its log lies."""


class Service:
    """A service as a child process; its output goes to a log file."""

    def __init__(self, name: str, command: list[str], env: Mapping[str, str], logs: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                tied(command),
                env=dict(env),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C comes to the demo alone, which then stops all in order
            )

    def check(self) -> None:
        """Raise DemoError where it has ended."""
        if self.process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise DemoError(
                f"{self.name} ended with status {self.process.returncode}:\n{tail}\n(log: {self.log})"
            )

    def stop(self) -> int:
        """End it as its supervisor would, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


def run(arguments: list[str], env: Mapping[str, str]) -> str:
    """Run one command of gpuledger to its end and return what it prints. Raises DemoError."""
    done = subprocess.run(
        [*GPULEDGER, *arguments], env=dict(env), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DemoError(
            f"gpuledger {' '.join(arguments)} failed ({done.returncode}):\n{done.stdout}{done.stderr}"
        )
    return done.stdout


class Stack:
    """Everything but the node: broker, registry, warehouse and the central services."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.env: dict[str, str] = {}
        self.services: list[Service] = []
        self.warehouse_url = ""
        self.alertmanager_url = ""
        self._cleanup = contextlib.ExitStack()

    def start(self) -> Iterator[str]:
        """Start all parts in order; yields the name of each before it starts. Raises DemoError."""
        yield "Kafka, schema registry and warehouse"
        kafka = Kafka(self.directory / "kafka", ROOT / "build" / "stack")
        registry = Registry(self.directory / "registry", ROOT / "build" / "stack")
        for server in (kafka, registry):
            self._cleanup.callback(server.stop)
            server.begin()
        port = free_port()
        self.warehouse_url = f"http://127.0.0.1:{port}"
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "GPULEDGER_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "GPULEDGER_REGISTRY_URL": registry.url,
            "GPULEDGER_WAREHOUSE_URL": self.warehouse_url,
            "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self.directory / "processor"),
            "GPULEDGER_BUDGETS_DATA_DIRECTORY": str(self.directory / "budgets"),
        }
        data = str(self.directory / "warehouse")
        self.add("warehouse", ["warehouse", "serve", "--path", data, "--port", str(port)])
        kafka.wait_ready()
        registry.wait_ready()
        self._await_warehouse()
        yield "topics and schemas"
        run(["topics", "apply", "--partitions", "2", "--replication", "1"], self.env)
        run(["schemas", "register"], self.env)
        yield "prices, teams and budgets"
        files = [str(DOCUMENTS / name) for name in ("prices.yaml", "teams.yaml", "budgets.yaml")]
        run(["config", "apply", "--yes", *files], self.env)
        yield "processor"
        self.add("processor", ["processor"])
        yield "sink"
        self.add("sink", ["sink", "--migrate"])
        yield "budgets, notify and Alertmanager"
        self._start_alertmanager()
        link = f"{self.alertmanager_url}/#/alerts?filter=%7Bbreach_id%3D%22{{breach}}%22%7D"
        self._run("budgets", [*BEHIND, *GPULEDGER, "budgets", "run"], {"GPULEDGER_BUDGETS_LINK": link})
        self._run("notify", [*BEHIND, *GPULEDGER, "notify", "run", "--targets", str(self._targets())])

    def add(self, name: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Service:
        """Start one more of our own services with the stack's environment."""
        return self._run(name, [*GPULEDGER, *arguments], env)

    def _run(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> Service:
        service = Service(name, command, {**self.env, **(env or {})}, self.logs)
        self.services.append(service)
        return service

    def _start_alertmanager(self) -> None:
        place = f"127.0.0.1:{free_port()}"
        self.alertmanager_url = f"http://{place}"
        command = [*BEHIND, "prometheus-alertmanager", f"--config.file={DOCUMENTS / 'alertmanager.yml'}"]
        command += [f"--storage.path={self.directory / 'alertmanager'}", f"--web.listen-address={place}"]
        self._run("alertmanager", [*command, "--cluster.listen-address=", "--log.level=warn"])

    def _targets(self) -> Path:
        """The document of notify: only the port is not known before."""
        path = self.directory / "notify.yaml"
        target = {"name": "on-call", "type": "alertmanager", "url": self.alertmanager_url}
        path.write_text(yaml.safe_dump({"kind": "notify", "targets": [target]}, sort_keys=False))
        return path

    def check(self) -> None:
        """Raise DemoError where a service has ended."""
        for service in self.services:
            service.check()

    def stop(self) -> None:
        """Stop every service, the youngest first, then registry and broker."""
        for service in reversed(self.services):
            service.stop()
        self.services.clear()
        self._cleanup.close()

    def _await_warehouse(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.warehouse_url}/ping", timeout=2):
                    return
            except OSError:
                if time.monotonic() > deadline:
                    raise DemoError(
                        f"the warehouse does not answer within {READY_S} s ({self.logs})"
                    ) from None
                time.sleep(0.1)
