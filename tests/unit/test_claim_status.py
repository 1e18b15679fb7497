"""How much of a device a claim has by its status, and what is only looked at; over HTTP as an API does it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from gpuledger.agent.holders.claim_status import (
    AGAIN_NS,
    CLAIM,
    VERSIONS,
    Allotment,
    ClaimStatuses,
    allotments,
    quantity,
)
from gpuledger.agent.holders.claims import SliceDevice
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.records import Holder
from gpuledger.kube import KubeClient
from tests.support.agent import devices, uuid
from tests.support.kube_api import KubeApi, claim, pod
from tests.support.node_holders import U1, U2, facts, held, holders, only

HAMI, NVIDIA = "hami-core-gpu.project-hami.io", "gpu.nvidia.com"
WHOLE = ClaimDevice("research/one", NVIDIA, "node-a", "gpu-9")
GIB = 1 << 30
SLICES = {
    (driver, "node-a", "gpu-9"): SliceDevice(uuid(1), capacities={"cores": 100.0, "memory": 80.0 * GIB})
    for driver in (HAMI, NVIDIA)
}


def shared(name: str, share: str = "s") -> ClaimDevice:
    return ClaimDevice(f"research/{name}", HAMI, "node-a", "gpu-9", share)


def having(pod: str, *claims: ClaimDevice, container: str = "main") -> Allocation:
    return Allocation("research", pod, container, (), claims)


def part(holder: Holder) -> Fraction:
    return Fraction(holder.share_numerator, holder.share_denominator)


def amount(cores: float = 0.0, memory: float = 0.0) -> Allotment:
    return Allotment({name: value for name, value in (("cores", cores), ("memory", memory)) if value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12.0),
        (30, 30.0),
        ("0.5", 0.5),
        ("500m", 0.5),
        ("10Gi", 10.0 * GIB),
        ("1Ki", 1024.0),
        ("3k", 3000.0),
        ("2E", 2e18),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("100n", 1e-7),
        ("", None),
        ("-1", None),
        ("Gi", None),
        ("1Xi", None),
        ("1e", None),
        ("1ek", None),
        ("1" * 40, None),
        (None, None),
        ({}, None),
    ],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: Any, value: float | None) -> None:
    assert quantity(text) == (None if value is None else pytest.approx(value))


def test_a_status_says_what_each_share_has() -> None:
    item = claim("one", "gpu-9", "s", HAMI, {f"{HAMI}/cores": "30", "memory": "4Gi", "odd": "x"})
    assert allotments("research/one", item) == {shared("one"): amount(30.0, 4.0 * GIB)}


@pytest.mark.parametrize("item", [{}, {"status": None}, {"status": {"allocation": None}}])
def test_a_claim_that_was_not_allotted_anything_says_nothing(item: dict[str, Any]) -> None:
    assert allotments("research/one", item) == {}


def test_shares_of_cores_are_stated_and_memory_is_the_limit() -> None:
    two = [facts(pod(U1, "a")), facts(pod(U2, "b"))]
    found = holders(
        having("a", shared("one", "x")),
        having("b", shared("two", "y")),
        pods=two,
        slices=SLICES,
        allotments={shared("one", "x"): amount(30, 4 * GIB), shared("two", "y"): amount(60, 8 * GIB)},
    )
    first, second = found.records(devices())
    assert (first.device, first.resource_name, part(first)) == (1, HAMI, Fraction(30, 100))
    assert (part(second), second.memory_limit_bytes) == (Fraction(60, 100), 8 * GIB)
    assert [device.sharing for device in found.devices(devices())] == ["exclusive", "fractional"]


def test_shares_that_one_container_has_of_a_device_are_added_up() -> None:
    parts = shared("one", "x"), shared("one", "y")
    said = {parts[0]: amount(10, GIB), parts[1]: amount(15, GIB)}
    record = only(holders(having("train-0", *parts), slices=SLICES, allotments=said))
    assert (part(record), record.memory_limit_bytes, record.slots) == (Fraction(25, 100), 2 * GIB, 2)


def test_a_claim_that_several_have_together_is_theirs_in_equal_parts() -> None:
    """CHARGING.md, Entitlements. A pod that has finished has no part, though a kubelet may still list it."""
    there = [facts(pod(U1, "a")), facts(pod(U2, "b")), facts(pod("u3", "c", phase="Succeeded"))]
    found = holders(
        having("a", shared("one")),
        having("a", shared("one"), container="beside"),
        having("b", shared("one")),
        having("c", shared("one")),
        pods=there,
        slices=SLICES,
        allotments={shared("one"): amount(60, 6 * GIB)},
    )
    records = found.records(devices())
    assert [(h.consumer, h.container) for h in records] == [(U1, "beside"), (U1, "main"), (U2, "main")]
    assert {part(h) for h in records} == {Fraction(20, 100)}
    assert {h.memory_limit_bytes for h in records} == {2 * GIB}


def test_of_a_device_that_is_given_out_by_memory_alone_the_memory_is_the_share() -> None:
    record = only(
        holders(having("train-0", shared("one")), slices=SLICES, allotments={shared("one"): amount(0, GIB)})
    )
    assert (record.share_denominator, record.memory_limit_bytes) == (0, GIB)


def test_shares_of_which_nothing_is_known_are_slots() -> None:
    found = holders(having("train-0", shared("one", "x"), shared("one", "y")), slices=SLICES)
    assert held(found) == [(U1, 1, 2)]
    assert {device.sharing for device in found.devices(devices())} == {"exclusive"}


def test_whoever_may_only_look_at_a_device_does_not_hold_it() -> None:
    """KEP-5018: an exporter's pod has every GPU of the node so."""
    whole = ClaimDevice("research/watch", NVIDIA, "node-a", "gpu-9")
    watch, work = having("watch", whole), having("work", shared("one"))
    there = [facts(pod(U1, "watch")), facts(pod(U2, "work"))]
    said = {whole: Allotment(admin=True), shared("one"): amount(50, GIB)}
    found = holders(watch, work, pods=there, slices=SLICES, allotments=said)
    assert [(h.consumer, part(h)) for h in found.records(devices())] == [(U2, Fraction(1, 2))]


def config(parameters: Any, requests: list[str] | None = None, driver: str = NVIDIA) -> dict[str, Any]:
    return {"requests": requests or [], "opaque": {"driver": driver, "parameters": parameters}}


def mps(threads: Any, memory: Any = None) -> dict[str, Any]:
    limits = {"defaultActiveThreadPercentage": threads, "defaultPinnedDeviceMemoryLimit": memory}
    return {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": limits}}


SLICED = {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([], Allotment()),
        ([config(mps(50, "10Gi"))], Allotment(sharing="mps", threads=50.0, memory_bytes=10 * GIB)),
        ([config(mps(None), ["gpu"])], Allotment(sharing="mps")),
        ([config(mps(101))], Allotment(sharing="mps")),
        ([config(SLICED)], Allotment(sharing="time_slicing")),
        ([config(mps(50)), config(SLICED)], Allotment(sharing="time_slicing")),
        ([config(SLICED), config(mps(25))], Allotment(sharing="mps", threads=25.0)),
        ([config(mps(50), ["other"])], Allotment()),
        ([config(mps(50), driver=HAMI)], Allotment()),
        ([config({"sharing": {"strategy": "New"}}), config("text"), {}, config(None)], Allotment()),
        ([config({"sharing": {"strategy": "MPS", "mpsConfig": "x"}})], Allotment(sharing="mps")),
    ],
)
def test_a_claim_s_configuration_says_how_its_device_is_shared(
    configs: list[dict[str, Any]], expected: Allotment
) -> None:
    item = claim("one", "gpu-9", driver=NVIDIA, config=configs)
    assert allotments("research/one", item) == {WHOLE: expected}


@pytest.mark.parametrize(("stated", "threads"), [(None, 40.0), ("25", 25.0), ("90", 40.0)])
def test_who_shares_a_claim_by_mps_has_its_part_of_the_threads_and_can_only_lower_it(
    stated: str | None, threads: float
) -> None:
    container = {"name": "main", "env": [{"name": "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "value": stated}]}
    two = [facts(pod(U1, "a", spec={"containers": [container]})), facts(pod(U2, "b"))]
    said = {WHOLE: Allotment(sharing="mps", threads=40.0, memory_bytes=GIB)}
    found = holders(having("a", WHOLE), having("b", WHOLE), pods=two, slices=SLICES, allotments=said)
    assert [h.mps_percentage for h in found.records(devices())] == [threads, 40.0]
    assert {(h.slots, h.memory_limit_bytes) for h in found.records(devices())} == {(1, GIB)}
    device = found.devices(devices())[1]
    assert (device.sharing, device.replicas) == ("mps", 2)


def test_who_shares_a_claim_in_turns_has_a_slot_of_as_many_as_there_are_containers() -> None:
    said = {WHOLE: Allotment(sharing="time_slicing")}
    allocations = [having("train-0", WHOLE, container=name) for name in "abc"]
    found = holders(*allocations, slices=SLICES, allotments=said)
    device = found.devices(devices())[1]
    assert (device.sharing, device.replicas, held(found)) == ("time_slicing", 3, [(U1, 1, 1)] * 3)
    assert {h.mps_percentage for h in found.records(devices())} == {None}


def test_a_driver_of_another_maker_is_known_by_the_uuid_that_its_slice_has() -> None:
    theirs = {(HAMI, "node-a", "gpu-9"): SliceDevice("6a3c55-no-uuid-of-nvml")}
    assert held(holders(having("train-0", shared("one")), slices=theirs)) == []
    assert held(holders(having("train-0", shared("one")), slices=SLICES)) == [(U1, 1, 1)]


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi(paths=())
    yield server
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10**18)


@pytest.fixture
def statuses(api: KubeApi, clock: ManualClock) -> Iterator[ClaimStatuses]:
    with KubeClient(api.access) as client:
        yield ClaimStatuses(client, clock)


def place(name: str, version: str = VERSIONS[0]) -> str:
    return CLAIM.format(version, "research", name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_claim_is_asked_for_once_by_whatever_version_the_cluster_has(
    statuses: ClaimStatuses, api: KubeApi, version: str
) -> None:
    api.single[place("one", version)] = claim("one", "gpu-9", "s", HAMI, {"cores": "30"})
    api.single[place("two", version)] = claim("two", "gpu-9", "t", HAMI, {"cores": "20"})
    assert statuses.of([shared("one")]) == {shared("one"): amount(30)}
    asked = len(api.requests)
    both = [shared("one"), shared("two", "t")]
    assert (
        statuses.of(both) == statuses.of(both) == {shared("one"): amount(30), shared("two", "t"): amount(20)}
    )
    assert len(api.requests) == asked + 1
    assert statuses.problem == ""


def test_a_claim_that_can_not_be_read_is_a_problem_that_is_said_and_asked_for_again_later(
    statuses: ClaimStatuses, api: KubeApi, clock: ManualClock
) -> None:
    api.single[place("one")] = claim("one", "gpu-9", "s", HAMI, {"cores": "30"})
    api.refuse = 403
    assert statuses.of([shared("one")]) == statuses.of([shared("one")]) == {}
    assert "HTTP 403" in statuses.problem
    assert len(api.requests) == 1
    api.refuse = 0
    clock.advance(AGAIN_NS)
    assert statuses.of([shared("one")]) == {shared("one"): amount(30)}
    assert statuses.problem == ""


def test_a_claim_that_is_allotted_anew_is_read_anew(
    statuses: ClaimStatuses, api: KubeApi, clock: ManualClock
) -> None:
    api.single[place("one")] = claim("one", "gpu-9", "s", HAMI, {"cores": "30"})
    assert statuses.of([shared("one")]) == {shared("one"): amount(30)}
    api.single[place("one")] = claim("one", "gpu-9", "t", HAMI, {"cores": "70"})
    clock.advance(AGAIN_NS)
    assert statuses.of([shared("one", "t")]) == {shared("one", "t"): amount(70)}
    assert statuses.of([]) == {}
    api.single[place("one")] = claim("one", "gpu-9", "t", HAMI, {"cores": "10"})
    assert statuses.of([shared("one", "t")]) == {shared("one", "t"): amount(10)}, "it was gone meanwhile"


def test_a_claim_of_a_name_that_is_gone_is_no_problem(statuses: ClaimStatuses) -> None:
    assert statuses.of([shared("one")]) == {}
    assert statuses.problem == ""
