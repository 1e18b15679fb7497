"""Who holds what on a Kubernetes node: the join of what the kubelet gave out with who the pods are."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpuledger.agent.holders.join import Seen, join
from gpuledger.contract.records import NodeLayout
from tests.support.agent import devices, uuid
from tests.support.kube_api import pod
from tests.support.node_holders import (
    MIG_UUID,
    U1,
    U2,
    facts,
    given,
    held,
    holders,
    offered,
    only,
    with_instances,
)


def test_a_pod_holds_the_devices_that_the_kubelet_gave_it() -> None:
    found = holders(given(uuid(0)), given(uuid(1)))
    assert held(found) == [(U1, 0, 1), (U1, 1, 1)]
    assert found.devices(devices())[0].sharing == "exclusive"


@pytest.mark.parametrize(
    ("phase", "holds"),
    [("Pending", True), ("Running", True), ("Unknown", True), ("Succeeded", False), ("Failed", False)],
)
def test_only_pods_that_finished_hold_nothing_though_the_kubelet_lists_them(phase: str, holds: bool) -> None:
    found = holders(given(uuid(0)), pods=[facts(pod(U1, phase=phase))])
    assert bool(held(found)) is holds


def test_a_pod_that_is_terminating_or_crash_looping_holds() -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    item = pod(
        U1,
        metadata={"deletionTimestamp": "2025-11-05T11:00:00Z"},
        status={"containerStatuses": [waiting]},
    )
    assert held(holders(given(uuid(0)), pods=[facts(item)])) == [(U1, 0, 1)]


def test_time_slices_count_by_what_can_be_given_out() -> None:
    slices = [f"{uuid(0)}::{n}" for n in range(4)]
    found = holders(given(slices[1], slices[3]), allocatable=offered(*slices, uuid(1)))
    assert held(found) == [(U1, 0, 2)]
    shared, whole = found.devices(devices())
    assert (shared.sharing, shared.replicas) == ("time_slicing", 4)
    assert (whole.sharing, whole.replicas) == ("exclusive", 1)


def test_where_the_kubelet_does_not_tell_the_node_s_label_says_how_many_slices() -> None:
    node = NodeLayout(labels={"nvidia.com/gpu.replicas": "8"})
    found = holders(given(f"{uuid(0)}::1"), node=node)
    assert found.devices(devices())[0].replicas == 8


@pytest.mark.parametrize(
    ("label", "value", "sharing"),
    [
        ("nvidia.com/gpu.sharing-strategy", "mps", "mps"),
        ("nvidia.com/gpu.sharing-strategy", "time-slicing", "time_slicing"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "mps", "mps"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing", "time_slicing"),
    ],
)
def test_the_node_s_labels_say_how_slots_are_shared(label: str, value: str, sharing: str) -> None:
    slots = [f"nvidia1/vgpu{n}" for n in range(2)]
    found = holders(given(slots[0]), allocatable=offered(*slots), node=NodeLayout(labels={label: value}))
    assert found.devices(devices())[0].sharing == sharing
    assert held(found) == [(U1, 0, 1)]


@pytest.mark.parametrize(("environment", "expected"), [(None, 25.0), ("10", 10.0), ("90", 25.0), ("x", 25.0)])
def test_an_mps_client_has_its_part_of_the_threads_and_can_only_lower_it(
    environment: str | None, expected: float
) -> None:
    env = [] if environment is None else [{"name": "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "value": environment}]
    slots = [f"{uuid(0)}::{n}" for n in range(4)]
    found = holders(
        given(slots[0]),
        allocatable=offered(*slots),
        node=NodeLayout(labels={"nvidia.com/gpu.sharing-strategy": "mps"}),
        pods=[facts(pod(U1, spec={"containers": [{"name": "main", "env": env}]}))],
    )
    assert only(found).mps_percentage == expected


@pytest.mark.parametrize(
    "id_", [MIG_UUID, f"MIG-{uuid(0)}/1/0", "nvidia1/gi1", f"{MIG_UUID}::0", "nvidia1/gi1/vgpu0"]
)
def test_every_form_of_id_of_a_mig_instance_means_the_instance(id_: str) -> None:
    """dcgm-exporter#272: the instance at 1 is meant, by its UUID, by its GPU's and two numbers, by minor
    numbers; one slot of it each time."""
    assert held(holders(given(id_)), with_instances("1g.10gb", "2g.20gb")) == [(U1, 1, 1)]


def test_slots_of_a_mig_instance_are_its_own() -> None:
    slots = [f"{MIG_UUID}::{n}" for n in range(3)]
    found = holders(given(slots[2]), allocatable=offered(*slots))
    shared = found.devices(with_instances("1g.10gb"))
    assert [d.replicas for d in shared] == [1, 3, 1]


def test_aliyun_s_ids_are_shares_of_memory() -> None:
    ids = [f"{uuid(0)}-_-{n}" for n in range(80)]
    found = holders(
        given(*ids[:20], resource="aliyun.com/gpu-mem"),
        allocatable=offered(*ids, resource="aliyun.com/gpu-mem"),
    )
    device = found.devices(devices())[0]
    assert (device.sharing, device.replicas, held(found)) == ("fractional", 80, [(U1, 0, 20)])


def test_hami_s_shares_are_those_that_it_wrote_on_the_pod() -> None:
    """The id that the kubelet lists is of device 0; the pod runs on device 1."""
    ids = [f"{uuid(d)}-{n}" for d in range(2) for n in range(10)]
    note = {"hami.io/vgpu-devices-allocated": f"{uuid(1)},NVIDIA,3000,30:;"}
    found = holders(
        given(ids[0], resource="nvidia.com/gpu"),
        allocatable=offered(*ids),
        pods=[facts(pod(U1, metadata={"annotations": note}))],
    )
    record = only(found)
    assert (record.device, record.container) == (1, "main")
    assert Fraction(record.share_numerator, record.share_denominator) == Fraction(30, 100)
    assert record.memory_limit_bytes == 3000 << 20
    assert found.devices(devices())[1].sharing == "fractional"


def test_a_share_without_hami_s_note_is_what_the_pod_asked_for() -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "25", "nvidia.com/gpumem": "4096", "cpu": "8"}
    item = pod(U1, spec={"containers": [{"name": "main", "resources": {"limits": limits}}]})
    record = only(holders(given(f"{uuid(0)}-3"), pods=[facts(item)]))
    assert Fraction(record.share_numerator, record.share_denominator) == Fraction(25, 100)
    assert record.memory_limit_bytes == 4096 << 20


def test_what_is_no_gpu_is_not_held() -> None:
    assert (
        held(holders(given("mlx5_0", resource="rdma/hca"), given("0000:3b:00.0", resource="a.io/nic"))) == []
    )


def test_hami_s_own_mig_instances_are_found_by_gpu_and_memory() -> None:
    """HAMi writes template and place in brackets, which are numbers of its own."""
    note = {"hami.io/vgpu-devices-allocated": f"{uuid(0)}[1-0],NVIDIA,20480,0:;"}
    found = holders(pods=[facts(pod(U1, metadata={"annotations": note}))])
    assert held(found, with_instances("1g.10gb", "2g.20gb", "3g.40gb")) == [(U1, 2, 1)]
    assert held(found, with_instances("2g.20gb", "2g.20gb")) == [], "which of two is not guessed"
    assert held(found, devices()) == []


# A pod of a StatefulSet that is made anew has the old one's name.


def test_while_the_old_pod_s_cgroup_is_there_it_holds() -> None:
    found = holders(
        given(uuid(0)),
        pods=[facts(pod(U2, phase="Pending", created="2025-11-05T12:00:00Z"))],
        gone=[facts(pod(U1))],
        alive={U1},
    )
    assert held(found) == [(U1, 0, 1)]


def test_once_the_new_pod_s_cgroup_is_there_it_holds() -> None:
    found = holders(given(uuid(0)), pods=[facts(pod(U2))], gone=[facts(pod(U1))], alive={U2})
    assert held(found) == [(U2, 0, 1)]


def test_without_any_cgroup_the_newer_pod_holds() -> None:
    old, new = pod(U2, created="2025-11-05T10:00:00Z"), pod(U1, created="2025-11-05T12:00:00Z")
    assert held(holders(given(uuid(0)), pods=[facts(new)], gone=[facts(old)])) == [(U1, 0, 1)]


def test_of_two_pods_the_one_that_has_not_finished_holds_though_it_is_the_older() -> None:
    done = pod(U1, created="2025-11-05T12:00:00Z", phase="Succeeded")
    runs = pod(U2, created="2025-11-05T10:00:00Z")
    assert held(holders(given(uuid(0)), pods=[facts(done), facts(runs)])) == [(U2, 0, 1)]


def test_a_pod_that_was_deleted_by_force_holds_while_the_kubelet_lists_it() -> None:
    found = holders(given(uuid(0)), pods=[], gone=[facts(pod(U1))])
    assert held(found) == [(U1, 0, 1)]


def test_a_pod_that_nobody_knows_is_said_and_not_invented() -> None:
    found, nameless = join(Seen([given(uuid(0))]), lambda uids: uids)
    assert (found.held, nameless) == ((), ["research/train-0"])


def test_names_of_pods_and_containers_that_went_stay() -> None:
    statuses = [
        {
            "name": "main",
            "containerID": "containerd://" + "cd" * 32,
            "lastState": {"terminated": {"containerID": "containerd://" + "ab" * 32}},
        }
    ]
    found = holders(pods=[], gone=[facts(pod(U1, status={"containerStatuses": statuses}))])
    assert [p.name for p in found.pods] == ["train-0"]
    assert found.container_names == {"cd" * 32: "main", "ab" * 32: "main"}


# The workload that a pod belongs to.


def owned(kind: str, name: str, labels: dict[str, str] | None = None) -> tuple[str, str]:
    owner = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": True}]
    found = facts(pod(U1, metadata={"ownerReferences": owner, "labels": labels or {}})).pod
    return found.workload_kind, found.workload


@pytest.mark.parametrize(
    ("kind", "name", "labels", "expected"),
    [
        ("ReplicaSet", "web-5d4f8", {"pod-template-hash": "5d4f8"}, ("Deployment", "web")),
        ("ReplicaSet", "web-5d4f8", {"rollouts-pod-template-hash": "5d4f8"}, ("Rollout", "web")),
        ("ReplicaSet", "web-5d4f8", {}, ("ReplicaSet", "web-5d4f8")),
        ("StatefulSet", "train", {}, ("StatefulSet", "train")),
        ("Job", "nightly-29371200", {}, ("CronJob", "nightly")),
        ("Job", "train-20251105", {}, ("Job", "train-20251105")),
        ("PyTorchJob", "llm", {}, ("PyTorchJob", "llm")),
        ("Node", "node-a", {}, ("", "")),
    ],
)
def test_the_workload_is_the_controller_s_controller(
    kind: str, name: str, labels: dict[str, str], expected: tuple[str, str]
) -> None:
    assert owned(kind, name, labels) == expected


def test_a_static_pod_is_known_by_the_uid_that_its_cgroup_carries() -> None:
    hash_ = "c7f44dd4541468230129396999edb0f0"
    notes = {"kubernetes.io/config.hash": hash_, "kubernetes.io/config.mirror": hash_}
    assert facts(pod(U1, metadata={"annotations": notes})).pod.uid == hash_


def test_long_annotations_and_the_environment_are_left_out() -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 5000, "team": "vision"}
    env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": "secret"}]
    found = facts(
        pod(U1, metadata={"annotations": notes}, spec={"containers": [{"name": "main", "env": env}]})
    )
    assert found.pod.annotations == {"team": "vision"}
    assert found.containers[0].environment == {}
