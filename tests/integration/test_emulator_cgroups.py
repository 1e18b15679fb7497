"""Processes in pod-shaped cgroups."""

from __future__ import annotations

from tests.emulator import Emulator, make_pod_cgroup, pod_cgroup_path, remove_pod_cgroup
from tests.emulator.cgroups import cgroup2_mount

POD = "1b3a6f0e-7f51-4c0e-9c56-0e1f5a3c2d41"
CONTAINER = "5d" * 32


def test_a_process_is_in_its_pods_cgroup_from_its_first_instruction() -> None:
    directory = make_pod_cgroup(POD, CONTAINER)
    try:
        with Emulator() as emulator:
            process = emulator.spawn_command(["cat", "/proc/self/cgroup"], cgroup=directory)
            out, _ = process.communicate()
            assert process.returncode == 0
            workload = emulator.spawn(["idle"], cgroup=directory)
            assert (directory / "cgroup.procs").read_text().split() == [str(workload.pid)]
    finally:
        remove_pod_cgroup(directory)
    assert f"0::{pod_cgroup_path(POD, CONTAINER)}" in out.splitlines()
    assert not directory.exists()


def test_removing_a_pods_cgroup_leaves_the_other_pods_alone() -> None:
    first, second = make_pod_cgroup(POD, "a" * 64), make_pod_cgroup(POD, "b" * 64)
    remove_pod_cgroup(first)
    assert second.exists()
    remove_pod_cgroup(second)
    assert not first.parent.exists()
    assert cgroup2_mount().exists()
