"""Holders from a file: what it may say, what is refused, and that a bad file changes nothing."""

import os
from pathlib import Path

import pytest

from gpuledger.agent.holders import FileHolders
from gpuledger.agent.holders.file import parse_holders
from gpuledger.contract.errors import ConfigError
from tests.support.agent import devices, uuid

DOCUMENT = f"""
devices:
  - device: {uuid(1)}
    sharing: time_slicing
    replicas: 4
pods:
  - uid: pod-a
    namespace: research
    name: train-0
    labels: {{team: vision}}
    owner: {{kind: Job, name: train}}
    containers:
      - name: main
        id: {"ab" * 32}
        devices: [{{id: {uuid(0)}}}]
  - uid: pod-b
    containers:
      - name: server
        devices:
          - {{id: "{uuid(1)}::0", resource: nvidia.com/gpu.shared}}
          - {{id: "{uuid(1)}::3", resource: nvidia.com/gpu.shared, slots: 2}}
"""


def test_a_document_becomes_pods_holders_and_sharing() -> None:
    holders = parse_holders(DOCUMENT, "holders.yaml")
    pod = holders.pods[0]
    assert (pod.uid, pod.namespace, pod.name, pod.phase) == ("pod-a", "research", "train-0", "Running")
    assert (pod.labels, pod.workload_kind, pod.workload) == ({"team": "vision"}, "Job", "train")
    assert holders.container_names == {"ab" * 32: "main"}
    shared = holders.devices(devices())[1]
    assert (shared.sharing, shared.replicas) == ("time_slicing", 4)
    assert holders.devices(devices())[0].sharing == "exclusive"


def test_slots_of_one_device_held_by_one_container_are_summed() -> None:
    records = parse_holders(DOCUMENT, "holders.yaml").records(devices())
    assert [(r.consumer, r.container, r.device, r.slots) for r in records] == [
        ("pod-a", "main", 0, 1),
        ("pod-b", "server", 1, 3),
    ]


@pytest.mark.parametrize(("phase", "holds"), [("Pending", True), ("Succeeded", False), ("Failed", False)])
def test_only_a_finished_pod_holds_nothing(phase: str, holds: bool) -> None:
    text = DOCUMENT.replace("name: train-0", f"name: train-0\n    phase: {phase}")
    records = parse_holders(text, "holders.yaml").records(devices())
    assert ("pod-a" in {r.consumer for r in records}) is holds


def test_a_device_that_the_node_does_not_have_is_held_by_nobody() -> None:
    records = parse_holders(DOCUMENT.replace(uuid(0), uuid(9)), "holders.yaml").records(devices())
    assert {r.consumer for r in records} == {"pod-b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pods:\n- {uid: a}\n]", "holders.yaml:3"),
        ("pods: [{uid: a}, {uid: a}]", "more than once"),
        ("pods: [{uid: a, nmespace: b}]", "pods.0.nmespace"),
        ("pods: [{uid: ''}]", "pods.0.uid"),
        ("devices: [{device: nvidia0, sharing: sometimes}]", "sometimes"),
        ("devices: [{device: nvidia0, replicas: 0}]", "devices.0.replicas"),
        ("pods: [{uid: a, containers: [{devices: [{id: nvidia0, share: 1/0}]}]}]", "share"),
        ("- a", "holders.yaml"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^holders\.yaml") as refused:
        parse_holders(text, "holders.yaml")
    assert said in str(refused.value)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "holders.yaml"
    path.write_text("pods: [{uid: a}]")
    source = FileHolders(path)
    first = source.read()
    assert first is not None
    assert first is source.read()
    new = tmp_path / "new.yaml"
    new.write_text("pods: [{uid: b}]")
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)
    second = source.read()
    assert second is not None
    assert [pod.uid for pod in second.pods] == ["b"]


def test_a_file_that_breaks_keeps_the_last_good_answer_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "holders.yaml"
    path.write_text("pods: [{uid: a}]")
    source = FileHolders(path)
    good = source.read()
    path.write_text("pods: [")
    assert source.read() == good
    assert str(path) in source.problem
    path.unlink()
    assert source.read() == good
    assert source.problem
    path.write_text("pods: [{uid: a}, {uid: c}]")
    repaired = source.read()
    assert repaired is not None
    assert (len(repaired.pods), source.problem) == (2, "")


def test_a_file_that_was_never_there_means_that_nobody_knows(tmp_path: Path) -> None:
    source = FileHolders(tmp_path / "absent.yaml")
    assert source.read() is None
    assert source.problem
