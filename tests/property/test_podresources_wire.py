"""What the agent reads of a kubelet's bytes is what protobuf's own library reads of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agent.holders.podresources_api import messages
from gpuledger.agent.holders.podresources_wire import Allocation, ClaimDevice, ListingReader, read_devices

TEXT = st.text(max_size=6)
DEVICES = st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3)), max_size=3)
CLAIMS = st.lists(st.tuples(TEXT, TEXT, st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=2)), max_size=2)
PODS = st.lists(st.tuples(TEXT, TEXT, st.lists(st.tuples(TEXT, DEVICES, CLAIMS), max_size=3)), max_size=4)


def listing(pods: list[Any]) -> bytes:
    message = messages()["ListPodResourcesResponse"]()
    for name, namespace, containers in pods:
        pod = message.pod_resources.add(name=name, namespace=namespace)
        for container_name, devices, claims in containers:
            container = pod.containers.add(name=container_name)
            for resource, ids in devices:
                container.devices.add(resource_name=resource, device_ids=ids)
            for claim_name, claim_namespace, resources in claims:
                claim = container.dynamic_resources.add(
                    claim_name=claim_name, claim_namespace=claim_namespace
                )
                for driver, pool, device in resources:
                    claim.claim_resources.add(driver_name=driver, pool_name=pool, device_name=device)
    return bytes(message.SerializeToString())


def allocations(answer: bytes) -> tuple[Allocation, ...]:
    """As protobuf's library has it."""
    return tuple(
        Allocation(
            pod.namespace,
            pod.name,
            container.name,
            tuple((entry.resource_name, one) for entry in container.devices for one in entry.device_ids),
            tuple(
                ClaimDevice(
                    f"{claim.claim_namespace}/{claim.claim_name}",
                    resource.driver_name,
                    resource.pool_name,
                    resource.device_name,
                )
                for claim in container.dynamic_resources
                for resource in claim.claim_resources
            ),
        )
        for pod in messages()["ListPodResourcesResponse"].FromString(answer).pod_resources
        for container in pod.containers
        if container.devices or container.dynamic_resources
    )


@given(st.lists(PODS, min_size=1, max_size=3))
def test_a_listing_is_read_as_protobuf_reads_it(listings: list[list[Any]]) -> None:
    reader = ListingReader()
    for pods in listings:  # of which one keeps what the other has too
        answer = listing(pods)
        assert reader.read(answer) == allocations(answer)


@given(DEVICES)
def test_what_can_be_given_out_is_read_as_protobuf_reads_it(devices: list[tuple[str, list[str]]]) -> None:
    message = messages()["AllocatableResourcesResponse"]()
    for resource, ids in devices:
        message.devices.add(resource_name=resource, device_ids=ids)
    expected = tuple((resource, one) for resource, ids in devices for one in ids)
    assert read_devices(message.SerializeToString()) == expected


@given(PODS, st.integers(6, 1000), st.binary(max_size=20))
def test_fields_that_are_not_known_are_passed_over(pods: list[Any], number: int, value: bytes) -> None:
    answer = listing(pods)
    unknown = [
        varint(number << 3 | 0) + varint(2**64 - 1),
        varint(number << 3 | 1) + bytes(8),
        varint(number << 3 | 2) + varint(len(value)) + value,
        varint(number << 3 | 5) + bytes(4),
    ]
    assert ListingReader().read(b"".join(unknown) + answer) == allocations(answer)
    assert ListingReader().read(answer + b"".join(unknown)) == allocations(answer)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_listing_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    try:
        ListingReader().read(data)
    except ValueError:
        return
    ListingReader().read(listing([("a", "b", [])]) + data)


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_listing_that_is_cut_off_is_refused(cut: int) -> None:
    answer = listing([("train-0", "research", [("main", [("nvidia.com/gpu", ["GPU-0"])], [])])])
    with pytest.raises(ValueError, match="behind its message"):
        ListingReader().read(answer[:-cut])


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
