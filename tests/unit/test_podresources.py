"""The kubelet's PodResources over a real unix socket."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.holders.podresources import Allocation, ClaimDevice, PodResources
from gpuledger.contract.errors import Unavailable
from tests.support.kubelet import Kubelet
from tests.support.waiting import until

GPU = "GPU-6f2a1b3c-4d5e-6f70-8192-a3b4c5d6e7f8"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    server = Kubelet(tmp_path / "kubelet.sock")
    yield server
    server.down()


@pytest.fixture
def client(kubelet: Kubelet) -> Iterator[PodResources]:
    client = PodResources(kubelet.socket)
    yield client
    client.close()


def test_every_device_of_every_container_is_listed(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.give("train-0", {"nvidia.com/gpu": [GPU, "nvidia1/gi3"], "rdma/hca": ["mlx5_0"]})
    assert client.list() == (
        Allocation(
            "research",
            "train-0",
            "main",
            (("nvidia.com/gpu", GPU), ("nvidia.com/gpu", "nvidia1/gi3"), ("rdma/hca", "mlx5_0")),
        ),
    )


def test_a_container_without_devices_is_left_out(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.give("web")
    assert client.list() == ()


def test_a_claim_says_driver_pool_and_device(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.claim("train-0", "one-gpu", "gpu-0")
    claim = ClaimDevice("research/one-gpu", "gpu.nvidia.com", "node-a", "gpu-0")
    assert client.list()[0].claims == (claim,)


def test_what_can_be_given_out_is_told(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.offer("nvidia.com/gpu.shared", [f"{GPU}::0", f"{GPU}::1"])
    assert client.allocatable() == (
        ("nvidia.com/gpu.shared", f"{GPU}::0"),
        ("nvidia.com/gpu.shared", f"{GPU}::1"),
    )


def test_an_old_kubelet_does_not_tell_what_can_be_given_out(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "old.sock", knows_allocatable=False)
    client = PodResources(kubelet.socket)
    assert client.allocatable() is None
    client.close()
    kubelet.down()


def test_a_kubelet_that_is_away_is_said_and_then_found_again(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.give("train-0", {"nvidia.com/gpu": [GPU]})
    kubelet.down()
    with pytest.raises(Unavailable, match=r"kubelet\.sock"):
        client.list()
    kubelet.up()
    until(lambda: [a.pod for a in listed(client)] == ["train-0"])


def listed(client: PodResources) -> tuple[Allocation, ...]:
    with contextlib.suppress(Unavailable):
        return client.list()
    return ()
