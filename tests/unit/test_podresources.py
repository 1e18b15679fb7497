"""The kubelet's PodResources over a real unix socket."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpuledger.agent.holders import podresources, unary
from gpuledger.agent.holders.podresources import SERVICE, Allocation, ClaimDevice, PodResources
from gpuledger.contract.errors import Unavailable
from tests.support.kubelet import Kubelet
from tests.support.waiting import PATIENCE_S, until

GPU = "GPU-6f2a1b3c-4d5e-6f70-8192-a3b4c5d6e7f8"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, a kubelet that answers has answered in time."""
    monkeypatch.setattr(podresources, "CALL_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    server = Kubelet(tmp_path / "kubelet.sock")
    yield server
    server.down()


@pytest.fixture
def client(kubelet: Kubelet) -> PodResources:
    return PodResources(kubelet.socket)


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
    kubelet.claim("train-0", "one-gpu", "gpu-0", share="share-7")
    claim = ClaimDevice("research/one-gpu", "gpu.nvidia.com", "node-a", "gpu-0", "share-7")
    assert client.list()[0].claims == (claim,)


def test_what_can_be_given_out_is_told(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.offer("nvidia.com/gpu.shared", [f"{GPU}::0", f"{GPU}::1"])
    assert client.allocatable() == (
        ("nvidia.com/gpu.shared", f"{GPU}::0"),
        ("nvidia.com/gpu.shared", f"{GPU}::1"),
    )


def test_an_old_kubelet_does_not_tell_what_can_be_given_out(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "old.sock", knows_allocatable=False)
    assert PodResources(kubelet.socket).allocatable() is None
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


def test_a_long_list_comes_whole(kubelet: Kubelet, client: PodResources) -> None:
    ids = [f"{GPU}::{number}" for number in range(20_000)]  # 1 MB, far above what may be on its way at once
    kubelet.offer("nvidia.com/gpu.shared", ids)
    assert client.allocatable() == tuple(("nvidia.com/gpu.shared", one) for one in ids)


def test_a_list_longer_than_allowed_is_refused(kubelet: Kubelet) -> None:
    kubelet.offer("nvidia.com/gpu.shared", [f"{GPU}::{number}" for number in range(2_000)])
    with pytest.raises(OSError, match="more than 50000 bytes"):
        unary.call(kubelet.socket, f"/{SERVICE}/GetAllocatableResources", b"", PATIENCE_S, 50_000)


def test_what_the_kubelet_says_of_its_refusal_is_told(tmp_path: Path) -> None:
    server = Refusing(tmp_path / "kubelet.sock", grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls: 100 %")
    with pytest.raises(Unavailable, match=r"kubelet\.sock: status 8 too many calls: 100 %"):
        PodResources(server.socket).list()
    server.down()


def test_a_kubelet_with_allocatable_devices_turned_off_does_not_tell_them(tmp_path: Path) -> None:
    server = Refusing(tmp_path / "kubelet.sock", grpc.StatusCode.UNKNOWN, "Pod Resources API disabled")
    assert PodResources(server.socket).allocatable() is None
    server.down()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "ended before the answer", id="HTTP/1"),
        pytest.param(bytes.fromhex("000000040000000001"), "no HTTP/2", id="settings of a stream"),
    ],
)
def test_a_socket_where_no_kubelet_listens_is_unavailable(tmp_path: Path, said: bytes, problem: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "other.sock"))
        listening.listen()

        def answer() -> None:
            connected = listening.accept()[0]
            with connected:
                connected.recv(1 << 16)
                connected.sendall(said)
                connected.shutdown(socket.SHUT_WR)
                while connected.recv(1 << 16):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unavailable, match=problem):
            PodResources(tmp_path / "other.sock").list()
        thread.join()


def test_a_kubelet_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "silent.sock"))
        listening.listen()
        with pytest.raises(TimeoutError):
            unary.call(tmp_path / "silent.sock", f"/{SERVICE}/List", b"", 0.1, 1000)


class Refusing(Kubelet):
    """A kubelet that answers every call with a status."""

    def __init__(self, socket_: Path, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details
        super().__init__(socket_)

    def _handler(self, request: str, answer: object) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda _, context: context.abort(self.code, self.details))
