"""What the agent's process carries around: nothing of the command line, nothing that it does not use."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.byte_code import OPTION, WHAT_AN_AGENT_HAS, options
from gpuledger.localstack import free_port
from tests.support.kube_api import NODES, KubeApi, node
from tests.support.kubelet import Kubelet
from tests.support.telemetry import RunningAgent, running_agent
from tests.support.waiting import until

NOBODY = "127.0.0.1:9"  # no broker listens on the discard port
BEGIN = "import time: self [us]"  # how Python begins its list of imports, once for each program
HEAVY = {
    *("typer", "click", "rich", "structlog", "pydantic", "pydantic_core", "pydantic_settings", "yaml"),
    *("asyncio", "httpx", "grpc", "google.protobuf", "kubernetes", "fastavro"),
    *("elftools", "pdb", "numpy.ma", "numpy.random", "numpy.fft", "numpy.polynomial"),
    *("pyarrow", "clickhouse_connect", "chdb", "faust", "bcc"),
}
NEEDED = {"numpy", "prometheus_client", "gpuledger.agent.service", "gpuledger.agent.holders.podresources"}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """One with the parts that it has in a cluster; calls are simulated. It has sent a window of them."""
    directory, port = tmp_path_factory.mktemp("agent"), free_port()
    api, kubelet = KubeApi(), Kubelet(directory / "kubelet.sock")
    api.put(NODES, node("cost"))
    kubelet.give("train-0", {"nvidia.com/gpu": ["GPU-0"]})
    command = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"]
    command += ["--cluster", "test", "--node", "cost", "--state", str(directory / "state")]
    command += ["--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--source", "simulated"]
    command += ["--window-s", "1", "--metrics-port", str(port), "--holders-from", "kubernetes"]
    command += ["--kube-api", api.access.url, "--kubelet-socket", str(kubelet.socket)]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    try:
        with running_agent(command, directory / "agent.log", environment) as started:
            started.wait_log("kafka_or_registry_away")
            until(lambda: queued(port, "EventBatch") > 1)
            yield started
    finally:
        api.close()
        kubelet.down()


def queued(port: int, record: str) -> float:
    """How many records of that name the agent has made."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    name = f'gpuledger_agent_records_queued_total{{record="{record}"}}'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def imported(agent: RunningAgent) -> list[set[str]]:
    """The modules that each program of the process imported, in the order of the programs."""
    programs = agent.log.split(BEGIN)[1:]
    return [
        {line.rpartition("|")[2].strip() for line in program.splitlines() if line.startswith("import time:")}
        for program in programs
    ]


def test_the_command_line_is_left_behind(agent: RunningAgent) -> None:
    command_line, lean = imported(agent)
    assert {"typer", "pydantic"} <= command_line
    assert lean >= NEEDED
    assert not HEAVY & lean


def test_the_agent_has_no_docstrings_where_its_byte_code_is_prepared(agent: RunningAgent) -> None:
    shown = Path(f"/proc/{agent.process.pid}/cmdline").read_text().split("\0")
    assert shown[1 : shown.index("-m")] == options()


def test_byte_code_is_prepared_once_and_then_read(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    ask = [sys.executable, "-c", "from gpuledger.agent import byte_code; print(byte_code.options())"]

    def say(command: list[str]) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip() + done.stderr

    assert say(ask) == "[]"
    say([sys.executable, "-m", "gpuledger.agent.byte_code"])
    assert say(ask) == str([OPTION])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    lean = say([sys.executable, "-v", OPTION, "-c", WHAT_AN_AGENT_HAS])
    assert "# code object from '" in lean
    assert "# code object from /" not in lean, "a module was compiled anew"


def test_ps_still_shows_how_the_agent_was_called(agent: RunningAgent) -> None:
    shown = Path(f"/proc/{agent.process.pid}/cmdline").read_text().split("\0")
    assert "gpuledger.agent.lean" in shown
    assert shown[shown.index("--node") + 1] == "cost"


def test_a_mistake_that_only_the_running_agent_can_find_is_one_line_and_exit_code_2(
    agent: RunningAgent, tmp_path: Path
) -> None:
    state = Path(f"/proc/{agent.process.pid}/cmdline").read_text().split("\0")
    held = state[state.index("--state") + 1]
    command = [sys.executable, "-c", "from gpuledger.cli import main; main()", "agent", "run"]
    command += ["--cluster", "test", "--node", "cost", "--state", held, "--source", "simulated"]
    with running_agent(command, tmp_path / "second.log") as second:
        until(lambda: second.process.poll() is not None)
    assert second.process.returncode == 2
    assert second.log.startswith(f"error: {held}/agent.lock is held")
    assert len(second.log.splitlines()) == 1
