"""What the agent's process carries around: nothing of the command line, nothing that it does not use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.localstack import free_port
from tests.support.telemetry import RunningAgent, running_agent
from tests.support.waiting import until

NOBODY = "127.0.0.1:9"  # no broker listens on the discard port
BEGIN = "import time: self [us]"  # how Python begins its list of imports, once for each program
HEAVY = {
    *("typer", "click", "rich", "structlog", "pydantic", "pydantic_core", "pydantic_settings", "yaml"),
    *("asyncio", "httpx", "grpc", "google.protobuf", "kubernetes", "fastavro"),
    *("pyarrow", "clickhouse_connect", "chdb", "faust", "bcc"),
}
NEEDED = {"numpy", "prometheus_client", "gpuledger.agent.service"}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    directory = tmp_path_factory.mktemp("agent")
    command = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"]
    command += ["--cluster", "test", "--node", "cost", "--state", str(directory / "state")]
    command += ["--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--source", "simulated"]
    command += ["--window-s", "1", "--metrics-port", str(free_port())]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    with running_agent(command, directory / "agent.log", environment) as started:
        started.wait_log("kafka_or_registry_away")
        yield started


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
