"""Who holds what on a Kubernetes node: the join of what the kubelet gave out with who the pods are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from gpuledger.agent.holders.claims import SliceDevice, slice_devices
from gpuledger.agent.holders.join import Seen, join
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.agent.holders.pods import PodFacts, pod_facts
from gpuledger.agent.holders.source import Holders
from gpuledger.contract.records import Device, Holder, NodeLayout
from tests.support.agent import devices, uuid
from tests.support.kube_api import pod

U1, U2 = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"
MIG_UUID = "MIG-33333333-0000-0000-0000-000000000000"


def facts(item: dict[str, Any]) -> PodFacts:
    found = pod_facts(item)
    assert found is not None
    return found


def given(*ids: str, resource: str = "nvidia.com/gpu", pod: str = "train-0") -> Allocation:
    return Allocation("research", pod, "main", tuple((resource, id_) for id_ in ids))


def offered(*ids: str, resource: str = "nvidia.com/gpu") -> tuple[tuple[str, str], ...]:
    return tuple((resource, id_) for id_ in ids)


def claimed(device: str, pod: str = "train-0", driver: str = "gpu.nvidia.com") -> Allocation:
    return Allocation("research", pod, "main", (), (ClaimDevice("research/c", driver, "node-a", device),))


def holders(*allocations: Allocation, alive: Collection[str] = (), **seen: Any) -> Holders:
    seen.setdefault("pods", [facts(pod(U1))])
    return join(Seen(allocations=allocations, **seen), lambda uids: set(uids) & set(alive))[0]


def held(found: Holders, there: list[Device] | None = None) -> list[tuple[str, int, int]]:
    """(pod, device, slots) of each holder."""
    return [(h.consumer, h.device, h.slots) for h in found.records(there or devices())]


def only(found: Holders, there: list[Device] | None = None) -> Holder:
    (record,) = found.records(there or devices())
    return record


def with_instances(*profiles: str) -> list[Device]:
    """GPU 0 with MIG instances, numbered from GPU instance 1 on, and GPU 1 whole."""
    gpu, other = devices()
    made = [
        Device(
            MIG_UUID if number == 0 else f"MIG-{number}",
            index=0,
            minor=gpu.minor,
            parent_uuid=gpu.uuid,
            gpu_instance=number + 1,
            compute_instance=0,
            mig_profile=profile,
        )
        for number, profile in enumerate(profiles)
    ]
    return [replace(gpu, sharing="mig"), *made, other]


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


def test_a_claim_means_the_device_of_its_slice() -> None:
    slices = {("gpu.nvidia.com", "node-a", "gpu-7"): SliceDevice(uuid=uuid(1))}
    assert held(holders(claimed("gpu-7"), slices=slices)) == [(U1, 1, 1)]


def test_a_claim_without_a_slice_is_known_by_the_driver_s_name() -> None:
    found = only(holders(claimed("gpu-1")))
    assert (found.device, found.resource_name) == (0, "gpu.nvidia.com")


def test_another_vendor_s_gpu_0_is_none_of_ours() -> None:
    assert held(holders(claimed("gpu-0", driver="gpu.intel.com"))) == []


@pytest.mark.parametrize("name", ["gpu-1-mig-1g12gb-19-0", "gpu-1-mig-1g10gb-19-0"])
def test_a_claim_of_a_dynamic_mig_instance_means_the_only_one_of_its_profile(name: str) -> None:
    """dcgm-exporter#714, #718: the claim has no UUID. Drivers round the memory differently: 1g12gb and
    1g10gb both mean the one instance of 1 slice where no name is equal."""
    there = with_instances("1g.12gb", "3g.48gb")
    assert held(holders(claimed(name)), there) == [(U1, 1, 1)]
    parent = {("gpu.nvidia.com", "node-a", name): SliceDevice(parent_uuid=uuid(0), profile="3g.48gb")}
    assert held(holders(claimed(name), slices=parent), there) == [(U1, 2, 1)]


def test_a_claim_that_could_mean_several_instances_is_not_guessed() -> None:
    assert held(holders(claimed("gpu-1-mig-1g12gb-19-0")), with_instances("1g.12gb", "1g.12gb")) == []


def placed(*places: tuple[int, int, str]) -> list[Device]:
    """GPU 0, its instances of that (first slot, slots, profile) each, and GPU 1 whole."""
    there = with_instances(*(profile for _, _, profile in places))
    for instance, (start, size, _) in zip(there[1:-1], places, strict=True):
        instance.placement_start, instance.placement_size = start, size
    return there


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gpu-1-mig-19-4-1", 2),  # static: profile's id, first slot, slots
        ("gpu-1-mig-19-0-1", 1),
        ("gpu-1-mig-9-0-4", None),  # nobody lies so
        ("gpu-1-mig-20-5-1", 3),
        ("gpu-1-mig-1g12gb-me-20-5", 3),  # dynamic: profile, its id, first slot
        ("gpu-1-mig-1g12gb-19-4", 2),
        ("gpu-0-mig-19-0-1", None),
    ],
)
def test_a_claim_without_a_slice_means_the_instance_on_the_slots_that_its_name_says(
    name: str, device: int | None
) -> None:
    there = placed((0, 1, "1g.12gb"), (4, 1, "1g.12gb"), (5, 1, "1g.12gb+me"))
    expected = [] if device is None else [(U1, device, 1)]
    assert held(holders(claimed(name)), there) == expected
    of_parent = SliceDevice(parent_uuid=uuid(0), profile="1g.12gb")
    if "g12gb" in name:
        slices = {("gpu.nvidia.com", "node-a", name): of_parent}
        assert held(holders(claimed(name), slices=slices), there) == expected


@pytest.mark.parametrize("name", ["gpu-1-mig-1g12gb-me-20-0", "gpu-1-mig-1g12gb-me-all-20-0"])
def test_a_profile_with_media_engines_is_known_by_its_name_where_no_slots_are_told(name: str) -> None:
    there = with_instances("1g.12gb", "1g.12gb+me", "1g.12gb+me.all")
    assert held(holders(claimed(name)), there)[0][1] == (3 if "all" in name else 2)


def test_shares_of_a_device_that_one_container_has_are_slots_of_it() -> None:
    shares = [
        ClaimDevice("research/c", "gpu.nvidia.com", "node-a", "gpu-1", share) for share in ("a", "b", "a")
    ]
    assert held(holders(Allocation("research", "train-0", "main", (), tuple(shares)))) == [(U1, 0, 2)]


def test_hami_s_own_mig_instances_are_found_by_gpu_and_memory() -> None:
    """HAMi writes template and place in brackets, which are numbers of its own."""
    note = {"hami.io/vgpu-devices-allocated": f"{uuid(0)}[1-0],NVIDIA,20480,0:;"}
    found = holders(pods=[facts(pod(U1, metadata={"annotations": note}))])
    assert held(found, with_instances("1g.10gb", "2g.20gb", "3g.40gb")) == [(U1, 2, 1)]
    assert held(found, with_instances("2g.20gb", "2g.20gb")) == [], "which of two is not guessed"
    assert held(found, devices()) == []


@pytest.mark.parametrize("nested", [True, False])
def test_a_slice_says_its_devices_in_both_versions_of_the_api(nested: bool) -> None:
    attributes = {
        "uuid": {"string": uuid(0)},
        "gpu.nvidia.com/profile": {"string": "1g.12gb"},
        "n": {"int": 1},
    }
    device = {
        "name": "gpu-0",
        **({"basic": {"attributes": attributes}} if nested else {"attributes": attributes}),
    }
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": "node-a"}, "devices": [device]}
    assert slice_devices({"spec": spec}) == {
        ("gpu.nvidia.com", "node-a", "gpu-0"): SliceDevice(uuid(0), "", "1g.12gb")
    }


def test_two_pods_with_one_claim_both_hold_its_device() -> None:
    two = [facts(pod(U1, "a")), facts(pod(U2, "b"))]
    assert held(holders(claimed("gpu-1", "a"), claimed("gpu-1", "b"), pods=two)) == [(U1, 0, 1), (U2, 0, 1)]


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
