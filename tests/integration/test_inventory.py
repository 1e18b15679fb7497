"""``gpuledger inventory run`` against a real Kafka, a real registry and the cluster's API over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuledger.bus import BusSettings, apply_topics, partition_for_node
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLifetime
from gpuledger.localstack import Kafka, Registry
from tests.support.children import asked_to_end, tied
from tests.support.kafka import STACK_DIRECTORY
from tests.support.kube_api import NODES, KubeApi, node
from tests.support.telemetry import ROOT, lifetimes
from tests.support.waiting import until

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as server:
        apply_topics(BusSettings.load(kafka_bootstrap=server.bootstrap), partitions=PARTITIONS, replication=1)
        yield server


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    yield server
    server.close()


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(broker: Kafka, registry: Registry, tmp_path: Path) -> Iterator[Start]:
    """Starts an inventory of the cluster `test` with these options; all are ended after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> subprocess.Popen[bytes]:
        bus = ("--bootstrap", broker.bootstrap, "--registry", registry.url)
        command = [sys.executable, "-m", "gpuledger", "inventory", "run", "--cluster", "test", *bus, *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "services")}
        with (tmp_path / "inventory.log").open("ab") as log:
            process = subprocess.Popen(tied(command), stderr=log, cwd=ROOT, env=environment)
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def said(broker: Kafka, name: str) -> list[NodeLifetime]:
    return [life for _, life in lifetimes(broker, name)]


def test_a_node_s_life_reaches_its_own_partition_and_a_restart_goes_on_where_it_was(
    broker: Kafka, api: KubeApi, start: Start
) -> None:
    names = [f"life-{number}" for number in range(5)]
    for name in names:
        api.put(NODES, node(name, f"uid-{name}", {"nvidia.com/gpu.count": "8"}))
    process = start("--kube-api", api.access.url)
    until(lambda: all(said(broker, name) for name in names))
    for name in names:
        ((partition, life),) = lifetimes(broker, name)
        assert partition == partition_for_node(NodeKey("test", name).key, PARTITIONS)
        assert (life.layout.gpu_count, life.ended_ns) == (8, None)
    process.kill()
    process.wait()
    api.delete(NODES, f"uid-{names[0]}")
    process = start("--kube-api", api.access.url)
    until(lambda: len(said(broker, names[0])) == 2)
    assert asked_to_end(process) == 0
    first, end = said(broker, names[0])
    assert end.launched_ns == first.launched_ns
    assert end.ended_ns is not None
    assert [len(said(broker, name)) for name in names[1:]] == [1, 1, 1, 1], "nothing is said twice"


def test_lives_come_from_a_file_too(broker: Kafka, start: Start, tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    node_of_file = "name: from-file, launched: 2025-11-05T09:00:00Z, gpu_count: 4"
    path.write_text(f"nodes: [{{{node_of_file}}}]")
    start("--file", str(path))
    until(lambda: said(broker, "from-file"))
    later = tmp_path / "later.yaml"
    later.write_text(f"nodes: [{{{node_of_file}, ended: 2025-11-06T09:00:00Z}}]")
    later.replace(path)  # never half of it
    until(lambda: len(said(broker, "from-file")) == 2)
    life = said(broker, "from-file")[-1]
    assert (life.stated_by, life.layout.gpu_count) == ("file", 4)
    assert life.ended_ns is not None
    assert life.launched_ns is not None
    assert life.ended_ns - life.launched_ns == 86_400 * 10**9
