"""A real Prometheus scrapes the agent's own metrics."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from gpuledger.agent.runtime import SPOOL_DIRECTORY
from gpuledger.agent.spool import Entry, Journal, Pressure
from gpuledger.agent.spool.journal import SEGMENT_BYTES
from gpuledger.localstack import free_port
from tests.support.children import tied
from tests.support.telemetry import RunningAgent, running_agent
from tests.support.waiting import until

PERIOD = "500ms"
SPOOL_BYTES = 2 * SEGMENT_BYTES  # the least there is
TORN = b"torn"
NOBODY = "127.0.0.1:9"  # no broker listens on the discard port: the agent spools, and its metrics say so


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


class Prometheus:
    """A server that scrapes one target; `value` is what it knows."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/query?"

    def series(self, query: str) -> list[dict[str, Any]]:
        try:
            answer = json.loads(get(self._url + urllib.parse.urlencode({"query": query})))
        except OSError:
            return []
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])

    def value(self, query: str) -> float:
        found = self.series(query)
        return float(found[0]["value"][1]) if found else float("nan")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningAgent, int]]:
    directory, port = tmp_path_factory.mktemp("agent"), free_port()
    earlier = Journal(directory / "state" / SPOOL_DIRECTORY, SPOOL_BYTES)
    while earlier.bytes < 0.75 * SPOOL_BYTES:  # so full that calls are tallied, and it ends in a crash
        earlier.append(Entry("EventBatch", b"test/metrics", bytes(100_000)))
    earlier.close()
    with max(earlier.directory.glob("*.segment")).open("ab") as last:
        last.write(TORN)
    command = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"]
    command += ["--cluster", "test", "--node", "metrics", "--state", str(directory / "state")]
    command += ["--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--source", "simulated"]
    command += ["--window-s", "1", "--metrics-port", str(port), "--spool-bytes", str(SPOOL_BYTES)]
    with running_agent(command, directory / "agent.log") as started:
        started.wait_log("epoch_begins")
        yield started, port


@pytest.fixture(scope="module")
def prometheus(
    agent: tuple[RunningAgent, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    directory, port = tmp_path_factory.mktemp("prometheus"), free_port()
    target = {"job_name": "agent", "static_configs": [{"targets": [f"127.0.0.1:{agent[1]}"]}]}
    timing = {"scrape_interval": PERIOD, "scrape_timeout": PERIOD}
    config = directory / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": timing, "scrape_configs": [target]}))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(tied(command), stdout=log, stderr=log) as process,
    ):
        server = Prometheus(port)
        try:
            until(lambda: server.value("up") == 1.0)
            yield server
        finally:
            process.terminate()


def test_prometheus_has_the_agents_series(prometheus: Prometheus) -> None:
    until(lambda: prometheus.value("gpuledger_agent_windows_total") >= 2)
    until(lambda: prometheus.value("gpuledger_agent_publish_errors_total") >= 1)
    for name in (
        "events_total",
        "samples_total",
        "epochs_total",
        "loop_seconds_total",
        "records_queued_total",
        "spool_bytes",
        "queue_records",
        "processes",
        "window_delay_seconds",
    ):
        until(partial(is_positive, prometheus, f"sum(gpuledger_agent_{name})"))
    lost = {("agent", where) for where in ("kernel", "user", "unpaired_returns")}
    until(lambda: labels(prometheus, "gpuledger_agent_lost_events", "job", "where") == lost)


def test_prometheus_sees_a_spool_that_fills_and_what_its_disk_has_spoiled(prometheus: Prometheus) -> None:
    until(lambda: prometheus.value("gpuledger_agent_coarsening") == Pressure.TALLY)
    until(lambda: prometheus.value('gpuledger_agent_tallied_records_total{by="agent"}') > 0)
    until(lambda: prometheus.value("gpuledger_agent_spool_bytes") > SPOOL_BYTES / 2)
    until(lambda: prometheus.value("gpuledger_agent_spool_damaged_bytes") == len(TORN))
    until(lambda: prometheus.value("gpuledger_agent_spool_disk_errors") == 0)


def test_rates_of_the_agent_can_be_asked_for(prometheus: Prometheus) -> None:
    until(lambda: prometheus.value("rate(gpuledger_agent_events_total[5s])") > 0)
    until(lambda: prometheus.value("rate(gpuledger_agent_loop_seconds_total[5s])") > 0)


def is_positive(prometheus: Prometheus, query: str) -> bool:
    """Asked until it is so: a scrape that the machine did not let happen in time leaves a hole."""
    return prometheus.value(query) > 0


def labels(prometheus: Prometheus, query: str, *names: str) -> set[tuple[str, ...]]:
    return {tuple(series["metric"][name] for name in names) for series in prometheus.series(query)}


def test_promtool_finds_nothing_to_object_to(agent: tuple[RunningAgent, int]) -> None:
    text = get(f"http://127.0.0.1:{agent[1]}/metrics")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_metric_says_what_it_is(agent: tuple[RunningAgent, int]) -> None:
    lines = get(f"http://127.0.0.1:{agent[1]}/metrics").splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# HELP ")}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert names == typed
    assert len(names) > 15
    assert all(name.startswith("gpuledger_agent_") for name in names)
