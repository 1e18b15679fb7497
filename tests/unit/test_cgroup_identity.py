"""Paths of cgroups to pods and containers."""

import csv
from pathlib import Path

import pytest

from gpuledger.agent.identity import PodRef, container_from_cgroup, pod_from_cgroup

with (Path(__file__).parent / "data" / "cgroup-paths.tsv").open() as _lines:
    ROWS = list(csv.DictReader(_lines, delimiter="\t", quoting=csv.QUOTE_NONE))

UID = "5e481006-5948-46b8-9e5a-2c99ddac1c12"
CONTAINER = "b4e317bd39909d5ac856daeb2e17af4d2a80563cbaf7fd338ae59e78a6f3770e"
OTHER = "d1849f61c6db10f395d8d9578d596cae461d1f1f68d25661108b6fcc87e8f0de"


def test_the_table_of_real_paths_is_there() -> None:
    assert len(ROWS) == 24


@pytest.mark.parametrize("row", ROWS, ids=[row["case"] for row in ROWS])
def test_a_real_path_gives_its_pod_and_container(row: dict[str, str]) -> None:
    pod = pod_from_cgroup(row["path"])
    assert (pod.pod_uid if pod else "") == (row["expect_pod_uid"] or "")
    assert (container_from_cgroup(row["path"]) or "") == (row["expect_container_id"] or "")
    if pod is not None:
        assert pod.container_id == row["expect_container_id"]


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        (f"/kubepods/besteffort/pod{UID}/{CONTAINER}", "besteffort"),
        (f"/kubepods/burstable/pod{UID}/{CONTAINER}", "burstable"),
        (f"/kubepods/pod{UID}/{CONTAINER}", "guaranteed"),
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{CONTAINER}.scope", "guaranteed"),
        (
            "/kubepods.slice/kubepods-burstable.slice"
            f"/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
            "burstable",
        ),
    ],
)
def test_the_quality_of_service_is_read_from_the_path(path: str, qos: str) -> None:
    assert pod_from_cgroup(path) == PodRef(UID, CONTAINER, qos)


def test_a_pod_with_user_namespaces_is_found_in_a_name_with_colons() -> None:
    """kubernetes#130982: the runtime's name is one path element with 2 colons; the uid is in its first
    part."""
    name = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice:cri-containerd:{CONTAINER}"
    assert pod_from_cgroup(f"/system.slice/{name}") == PodRef(UID, CONTAINER, "burstable")


def test_a_pods_own_cgroup_has_no_container() -> None:
    path = f"/kubepods/burstable/pod{UID}"
    assert pod_from_cgroup(path) == PodRef(UID, "", "burstable")
    assert container_from_cgroup(path) is None


def test_what_a_pod_runs_inside_itself_belongs_to_the_pod() -> None:
    docker_in_pod = f"/kubepods/pod{UID}/{CONTAINER}/docker/{OTHER}"
    assert pod_from_cgroup(docker_in_pod) == PodRef(UID, CONTAINER, "guaranteed")
    assert container_from_cgroup(docker_in_pod) == CONTAINER
    cluster_in_pod = f"/kubepods/pod{UID}/{CONTAINER}/kubepods/pod{UID.replace('5', '6')}/{OTHER}"
    assert pod_from_cgroup(cluster_in_pod) == PodRef(UID, CONTAINER, "guaranteed")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/kubepods",
        "/kubepods/besteffort",
        f"/pod{UID}",
        f"/user.slice/pod{UID}/{CONTAINER}",
        f"/kubepods/pod{UID}x/{CONTAINER}",
        f"/kubepods/pod{UID.upper()}",
        "/kubepods/podcafe",
    ],
)
def test_a_path_that_only_resembles_a_pods_is_none(path: str) -> None:
    assert pod_from_cgroup(path) is None


def test_the_monitor_of_a_container_is_not_the_container() -> None:
    assert container_from_cgroup(f"/machine.slice/libpod-conmon-{CONTAINER}.scope") is None
    assert container_from_cgroup(f"/machine.slice/crio-conmon-{CONTAINER}.scope") is None
