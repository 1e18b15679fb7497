"""Holders from a file: what it may say, what is refused, and that a bad file changes nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuledger.agent.devices import parse_device_id
from gpuledger.agent.holders.file import FileHolders, parse_holders
from gpuledger.agent.holders.source import find_device
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device
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


JOB = """
consumers:
  - kind: slurm_job
    id: '42'
    namespace: physics
    name: train
    labels: {user: alice}
    devices: [{id: nvidia1, resource: gres/gpu}]
"""


def test_a_job_holds_what_the_file_says() -> None:
    holders = parse_holders(JOB, "jobs.yaml")
    (record,) = holders.records(devices())
    assert (record.consumer_kind, record.consumer, record.device) == ("slurm_job", "42", 0)
    assert (record.resource_name, record.slots) == ("gres/gpu", 1)
    assert [(pod.uid, pod.namespace, pod.labels) for pod in holders.pods] == [
        ("42", "physics", {"user": "alice"})
    ]


def consumers(source: FileHolders) -> list[str] | None:
    found = source.read()
    return None if found is None else [record.consumer for record in found.records(devices())]


def test_the_files_of_a_directory_come_and_go_with_their_holders(tmp_path: Path) -> None:
    source = FileHolders(tmp_path)
    assert consumers(source) == [], "an empty directory says that nobody holds"
    (tmp_path / "job_42.yaml").write_text(JOB)
    (tmp_path / "job_7.yaml").write_text(JOB.replace("42", "7"))
    (tmp_path / ".job_8").write_text("half wri")
    assert consumers(source) == ["42", "7"]
    assert source.problem == ""
    (tmp_path / "job_42.yaml").unlink()
    assert consumers(source) == ["7"]
    (tmp_path / "job_7.yaml").unlink()
    assert consumers(source) == []


def test_a_broken_file_of_a_directory_touches_no_other(tmp_path: Path) -> None:
    source = FileHolders(tmp_path)
    (tmp_path / "a.yaml").write_text("pods: [")
    assert consumers(source) is None
    (tmp_path / "job_42.yaml").write_text(JOB)
    assert consumers(source) == ["42"]
    assert "a.yaml" in source.problem
    (tmp_path / "job_42.yaml").write_text("consumers: [")
    assert consumers(source) == ["42"], "its own last good answer stays"
    (tmp_path / "job_42.yaml").unlink()
    assert consumers(source) == []


def slurm(script: str, directory: Path, **variables: str) -> None:
    """Run a script of deploy/slurm as slurmd would."""
    path = Path(__file__).parents[2] / "deploy" / "slurm" / script
    environment = {"PATH": os.environ["PATH"], "GPULEDGER_HOLDERS": str(directory), **variables}
    subprocess.run([str(path)], env=environment, check=True)


def test_slurm_s_prolog_makes_a_job_a_holder_and_its_epilog_ends_that(tmp_path: Path) -> None:
    directory = tmp_path / "holders"
    job = {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_JOB_NAME": 'it\'s: "#1"\n- kind: pod',
        "SLURM_JOB_ACCOUNT": "physics",
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_PARTITION": "gpu",
    }
    slurm("prolog.sh", directory, **job)
    found = FileHolders(directory).read()
    assert found is not None
    assert [(r.consumer_kind, r.consumer, r.device) for r in found.records(devices())] == [
        ("slurm_job", "4711", 0),
        ("slurm_job", "4711", 1),
    ]
    (pod,) = found.pods
    assert (pod.name, pod.namespace) == ('it\'s: "#1"- kind: pod', "physics")
    assert pod.labels == {"user": "alice", "partition": "gpu"}
    slurm("epilog.sh", directory, SLURM_JOB_ID="4711")
    assert list(directory.iterdir()) == []


def test_a_job_without_gpus_leaves_no_file(tmp_path: Path) -> None:
    slurm("prolog.sh", tmp_path / "holders", SLURM_JOB_ID="1")
    assert not (tmp_path / "holders").exists()
    slurm("epilog.sh", tmp_path / "holders", SLURM_JOB_ID="1")


@pytest.mark.parametrize(
    ("id_", "device"), [("nvidia0", 2), ("gpu-2", 0), ("nvidia1/gi7", 4), ("nvidia4", None)]
)
def test_a_number_in_an_id_is_that_of_the_device_s_node_and_not_nvml_s_index(
    id_: str, device: int | None
) -> None:
    """Nodes are numbered as the driver binds the boards, NVML counts along the bus."""
    there = devices(3)
    there[1].sharing = "mig"
    instances = [
        Device(f"MIG-{n}", index=n, minor=2 - n, parent_uuid=uuid(n), gpu_instance=7, compute_instance=0)
        for n in (0, 1)
    ]
    assert find_device(there + instances, parse_device_id("", id_)) == device


def test_where_a_node_s_number_is_not_known_the_index_stands_for_it() -> None:
    there = [Device(uuid(0), index=0, minor=-1), Device(uuid(1), index=1, minor=-1)]
    assert find_device(there, parse_device_id("", "nvidia1")) == 1
