"""Which device a claim of dynamic resource allocation means, with a ResourceSlice and without."""

from __future__ import annotations

import pytest

from gpuledger.agent.holders.claims import SliceDevice, slice_devices
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.contract.records import Device
from tests.support.agent import uuid
from tests.support.kube_api import pod
from tests.support.node_holders import (
    U1,
    U2,
    claimed,
    facts,
    held,
    holders,
    only,
    with_instances,
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


@pytest.mark.parametrize("nested", [True, False])
def test_a_slice_says_its_devices_in_both_versions_of_the_api(nested: bool) -> None:
    attributes = {
        "uuid": {"string": uuid(0)},
        "gpu.nvidia.com/profile": {"string": "1g.12gb"},
        "n": {"int": 1},
    }
    said = {"attributes": attributes, "capacity": {"memory": {"value": "2Gi"}, "cores": {}}}
    device = {"name": "gpu-0", **({"basic": said} if nested else said)}
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": "node-a"}, "devices": [device]}
    assert slice_devices({"spec": spec}) == {
        ("gpu.nvidia.com", "node-a", "gpu-0"): SliceDevice(uuid(0), "", "1g.12gb", {"memory": 2.0**31})
    }


def test_two_pods_with_one_claim_both_hold_its_device() -> None:
    two = [facts(pod(U1, "a")), facts(pod(U2, "b"))]
    assert held(holders(claimed("gpu-1", "a"), claimed("gpu-1", "b"), pods=two)) == [(U1, 0, 1), (U2, 0, 1)]
