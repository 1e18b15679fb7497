"""What the doctor says of the cluster and of the driver: against servers that are started here."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.doctor import cluster, entries, silicon
from gpuledger.agent.doctor.report import Check
from gpuledger.agent.holders.choose import HolderChoice, HoldersFrom
from gpuledger.agent.node_cli import names_from
from gpuledger.agent.probes.places import LIBRARY_PLACES
from gpuledger.contract.clock import SystemClock
from gpuledger.kube import KubeAccess
from tests.support.agent import uuid
from tests.support.kube_api import NODES, PODS, SLICES, KubeApi
from tests.support.kubelet import Kubelet


def by_name(checks: Iterator[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_kubelet_is_asked_what_it_has_given_out(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    try:
        kubelet.give("train-0", {"nvidia.com/gpu": [uuid(0)]})
        kubelet.offer("nvidia.com/gpu", [uuid(0), uuid(1)])
        checks = by_name(cluster.kubelet(kubelet.socket))
    finally:
        kubelet.down()
    assert checks["kubelet"].ok
    assert checks["kubelet"].detail.endswith("1 containers have devices, 2 devices can be given out")
    assert checks["slots"].ok


def test_a_kubelet_that_does_not_say_what_it_could_give_out_is_told_of(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "kubelet.sock", knows_allocatable=False)
    try:
        checks = by_name(cluster.kubelet(kubelet.socket))
    finally:
        kubelet.down()
    assert (checks["kubelet"].ok, checks["slots"].ok) == (True, False)
    assert "nvidia.com/gpu.replicas" in checks["slots"].remedy


def test_whoever_only_listens_on_the_socket_is_no_kubelet(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.0)
        (check,) = cluster.kubelet(path)
    assert not check.ok
    assert check.remedy


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi(paths=(PODS, NODES, SLICES.replace("/v1/", "/v1beta1/"), "/pods"))
    yield server
    server.close()


def test_what_the_agent_may_read_of_the_cluster_is_tried(api: KubeApi) -> None:
    checks = by_name(cluster.api_server(api.access))
    assert {name: check.ok for name, check in checks.items()} == {
        "read pods": True,
        "read nodes": True,
        "read resourceslices": True,
        "read resourceclaims": True,
    }
    assert checks["read resourceslices"].detail == "ResourceSlices are read as v1beta1"


def test_rights_that_are_not_there_are_said_with_the_role_that_gives_them(api: KubeApi) -> None:
    api.refuse = 403
    checks = by_name(cluster.api_server(api.access))
    assert not any(check.ok for check in checks.values())
    assert "HTTP 403" in checks["read pods"].detail
    assert "agent.yaml" in checks["read pods"].remedy
    assert checks["read pods"].required
    (check,) = cluster.kubelet_pods(api.access)
    assert "nodes/pods" in check.remedy


def test_whoever_gets_no_answer_or_has_a_wrong_token_is_not_told_to_bind_a_role(api: KubeApi) -> None:
    api.refuse = 401
    (wrong,) = cluster.kubelet_pods(api.access)
    assert "token" in wrong.remedy
    api.down()
    for check in (*cluster.api_server(api.access), *cluster.kubelet_pods(api.access)):
        assert "can be reached" in check.remedy
        assert "ClusterRole" not in check.remedy


@pytest.mark.parametrize(("said", "remedy"), [(b"", "does not answer"), (b"SSH-2.0\r\n", "speaks HTTP")])
def test_an_exporter_that_was_asked_for_and_is_none_is_told_what_to_do_about_that(
    said: bytes, remedy: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
        answering = threading.Thread(target=_answer, args=(listener, said))
        answering.start()
        (check,) = silicon.exporter(url, SystemClock())
        answering.join()
    assert (check.ok, check.required) == (False, True)
    assert remedy in check.remedy


def _answer(listener: socket.socket, said: bytes) -> None:
    """Take one connection, say that, and wait for its end."""
    connected, _ = listener.accept()
    with connected:
        connected.sendall(said)
        while connected.recv(4096):
            pass


def test_a_cluster_without_resource_slices_lacks_nothing() -> None:
    server = KubeApi(paths=(PODS, NODES))
    try:
        checks = by_name(cluster.api_server(server.access))
    finally:
        server.close()
    assert checks["read resourceslices"].ok


def test_the_kubelets_own_list_is_tried_where_it_is_asked_for(api: KubeApi) -> None:
    (check,) = cluster.kubelet_pods(api.access)
    assert check.ok
    assert list(cluster.kubelet_pods(None)) == []


def test_outside_a_cluster_nothing_is_said_of_an_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert list(cluster.api_server(None)) == []
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    assert not any(check.required for check in cluster.api_server(None))


KALLSYMS = """\
0000000000000000 t nvidia_open\t[nvidia]
0000000000000000 t nvidia_close\t[nvidia]
0000000000000000 t nvidia_unlocked_ioctl\t[nvidia]
0000000000000000 t nvidia_mmap\t[nvidia]
0000000000000000 t uvm_unlocked_ioctl_entry\t[nvidia_uvm]
"""


def test_the_entry_points_of_the_loaded_driver_are_named(tmp_path: Path) -> None:
    (tmp_path / "nvidia").mkdir()
    symbols = tmp_path / "kallsyms"
    symbols.write_text(KALLSYMS)
    (check,) = entries.driver(False, tmp_path, symbols)
    assert check.ok
    assert "nvidia_unlocked_ioctl" in check.detail
    symbols.write_text(KALLSYMS.replace("nvidia_unlocked_ioctl", "nvidia_other"))
    (check,) = entries.driver(False, tmp_path, symbols)
    assert not check.ok
    assert "not there: nvidia_frontend_unlocked_ioctl/nvidia_unlocked_ioctl" in check.detail


def test_entry_points_that_the_kernel_does_not_let_be_probed_are_said(tmp_path: Path) -> None:
    """The names are in the file, and in no kernel of this machine."""
    (tmp_path / "nvidia").mkdir()
    symbols = tmp_path / "kallsyms"
    symbols.write_text(KALLSYMS)
    (check,) = entries.driver(True, tmp_path, symbols)
    assert not check.ok
    assert "CONFIG_KPROBES" in check.remedy


def test_without_a_driver_the_doctor_says_what_is_then_not_known(tmp_path: Path) -> None:
    (check,) = entries.driver(True, tmp_path)
    assert (check.ok, check.required) == (False, False)
    assert "NVML and its environment" in check.remedy


def test_libraries_that_are_probed_from_the_start_are_named(tmp_path: Path) -> None:
    (check,) = entries.libraries(tmp_path)
    assert (check.ok, check.required) == (False, False)
    assert "hostPID" in check.remedy
    library = tmp_path / LIBRARY_PLACES[0]
    library.parent.mkdir(parents=True)
    library.touch()
    (check,) = entries.libraries(tmp_path)
    assert check.ok
    assert str(library) in check.detail


def test_an_unreachable_server_is_said_and_no_error(tmp_path: Path) -> None:
    checks = list(cluster.api_server(KubeAccess("http://127.0.0.1:1")))
    assert [check.ok for check in checks] == [False] * 4


@pytest.mark.parametrize(("text", "told"), [(None, "No such file"), ("nodes: [", "is no YAML"), ("{}", "")])
def test_top_says_where_it_has_no_names_of_pods(
    tmp_path: Path, text: str | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "holders.yaml"
    if text is not None:
        path.write_text(text)
    with contextlib.ExitStack() as stack:
        names_from(stack, HolderChoice(HoldersFrom.FILE, path), "n", SystemClock())
    said = capsys.readouterr().err
    assert (told in said and "without names of pods" in said) if told else not said
