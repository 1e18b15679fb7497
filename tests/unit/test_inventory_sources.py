"""The inventory around it: over a real API, and from a file that is followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.contract.clock import ManualClock
from gpuledger.contract.errors import ConfigError, KafkaUnavailable
from gpuledger.inventory.file import read_lives
from gpuledger.inventory.lives import LifeKey
from gpuledger.inventory.service import Inventory
from gpuledger.inventory.sources import ClusterSource, FileSource
from gpuledger.kube import KubeClient
from tests.support.inventory import CREATED, KEY, LAUNCHED, NOW, S, Shelf, W, claim
from tests.support.kube_api import CLAIMS, NODES, KubeApi, node
from tests.support.waiting import until


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    yield server
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def watching(api: KubeApi, shelf: Shelf, clock: ManualClock) -> tuple[ClusterSource, Inventory]:
    source = ClusterSource(KubeClient(api.access), "prod", W, clock)
    source.start()
    return source, Inventory(source, shelf, clock)


def test_the_inventory_follows_the_cluster(api: KubeApi, clock: ManualClock) -> None:
    shelf = Shelf()
    source, inventory = watching(api, shelf, clock)
    api.put(NODES, node())
    until(lambda: inventory.look() or shelf.lives)
    api.put(CLAIMS, claim())
    until(lambda: inventory.look() or shelf.lives[KEY].launched_ns == LAUNCHED)
    api.delete(NODES, "node-uid")
    clock.advance(5 * S)
    api.delete(CLAIMS, "c-uid")
    until(lambda: inventory.look() or shelf.lives[KEY].ended_ns == NOW + 5 * S)
    source.stop()


def test_a_cluster_without_karpenter_has_no_claims(clock: ManualClock) -> None:
    api = KubeApi(paths=(NODES,))
    shelf = Shelf()
    source, inventory = watching(api, shelf, clock)
    api.put(NODES, node())
    until(lambda: inventory.look() or shelf.lives)
    assert source.problem == ""
    source.stop()
    api.close()


def test_nothing_ends_while_the_api_server_is_away(api: KubeApi, clock: ManualClock) -> None:
    shelf = Shelf()
    api.put(NODES, node())
    source, inventory = watching(api, shelf, clock)
    until(lambda: inventory.look() or shelf.lives)
    api.down()
    until(lambda: source.problem)
    inventory.look()
    assert shelf.lives[KEY].ended_ns is None
    source.stop()
    api.refuse = 503
    api.up()
    source, inventory = watching(api, shelf, clock)
    until(lambda: source.problem)
    assert inventory.look() == [], "nor when it starts anew and can not list"
    source.stop()


def test_a_node_that_went_while_the_inventory_was_away_is_ended_by_the_next(
    api: KubeApi, clock: ManualClock
) -> None:
    shelf = Shelf()
    api.put(NODES, node())
    source, inventory = watching(api, shelf, clock)
    until(lambda: inventory.look() or shelf.lives)
    source.stop()
    api.delete(NODES, "node-uid")
    clock.advance(100 * S)
    source, inventory = watching(api, shelf, clock)
    until(lambda: inventory.look() or shelf.lives[KEY].ended_ns == NOW + 100 * S)
    source.stop()


def test_what_kafka_did_not_take_is_said_at_the_next_look(api: KubeApi, clock: ManualClock) -> None:
    shelf = Shelf()
    api.put(NODES, node())
    source, inventory = watching(api, shelf, clock)
    until(lambda: source.statements({}, NOW))
    shelf.away = True
    with pytest.raises(KafkaUnavailable):
        inventory.look()
    shelf.away = False
    assert [life.node for life in inventory.look()] == ["node-a"]
    source.stop()


DOCUMENT = """
nodes:
  - name: gpu-7
    instance_id: rack3-u12
    launched: 2025-11-05T09:00:00Z
    instance_type: dgx-h100
    capacity_type: owned
    gpu_count: 8
    labels: {rack: "3"}
    devices: [{uuid: GPU-1, index: 0, model: H100}]
  - name: gpu-8
    ended: 2025-11-05T10:00:00+00:00
"""


def test_a_file_states_lives(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(DOCUMENT)
    lives = read_lives(path, "prod", W)
    life = lives[LifeKey("gpu-7", "rack3-u12")]
    assert (life.launched_ns, life.ended_ns, life.layout.gpu_count) == (CREATED, None, 8)
    assert [device.uuid for device in life.layout.devices] == ["GPU-1"]
    other = lives[LifeKey("gpu-8", "gpu-8")]
    assert (other.launched_ns, other.ended_ns) == (None, NOW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [{name: a, launched: 2025-11-05T09:00:00}]", "nodes.0.launched"),
        (
            "nodes: [{name: a, launched: 2025-11-05T09:00:00Z, ended: 2025-11-05T08:00:00Z}]",
            "before it launched",
        ),
        ("nodes: [{name: a}, {name: a}]", "twice"),
        ("nodes: [{name: a/b}]", "slash"),
        ("nodes: [{name: a, gpus: 8}]", "gpus"),
        ("nodes: [", "no YAML"),
        ("nodes: [{name: a, launched: 0001-01-01T00:00:00Z}]", "nodes.0.launched"),
        ("nodes: [{name: a, launched: 2014-12-31T23:59:59Z}]", "nodes.0.launched"),
        ("nodes: [{name: a, ended: 9999-01-01T00:00:00Z}]", "nodes.0.ended"),
        ("nodes: [{name: a, gpu_count: 1025}]", "nodes.0.gpu_count"),
        ("nodes: [{name: a, devices: [{uuid: G-1}, {uuid: G-1}]}]", "two devices with one uuid"),
        (f"nodes: [{{name: a, zone: {'z' * 1025}}}]", "nodes.0.zone"),
    ],
)
def test_a_file_that_is_wrong_is_refused_whole(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_lives(path, "prod", W)


def test_a_file_is_followed_and_a_broken_one_changes_nothing(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(DOCUMENT)
    shelf = Shelf()
    source = FileSource(path, "prod", W)
    inventory = Inventory(source, shelf, clock)
    assert [life.node for life in inventory.look()] == ["gpu-7", "gpu-8"]
    path.write_text("nodes: [")
    assert inventory.look() == []
    assert "nodes.yaml" in source.problem
    path.write_text("nodes: [{name: gpu-8, ended: 2025-11-05T10:00:00+00:00}]")
    assert inventory.look() == [], "a node is not ended by being left out"
    assert source.problem == ""
    path.write_text(DOCUMENT.replace("gpu_count: 8", "gpu_count: 8\n    ended: 2025-11-06T00:00:00Z"))
    assert [life.node for life in inventory.look()] == ["gpu-7"]
