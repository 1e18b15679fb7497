"""From the cgroup id of an event to its pod, in the kernel's own hierarchy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.identity import PodRef, pod_from_cgroup
from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.processes import ProcessTable
from tests.bpf.workbench import Bench, Pod, Running, events_of, mounted, pod, run


@pytest.fixture
def paths() -> Iterator[CgroupPaths]:
    opened = CgroupPaths()
    yield opened
    opened.close()


def test_the_cgroup_id_of_an_event_names_its_pod_and_container(
    source: ProbeSource, bench: Bench, pods: list[Pod], paths: CgroupPaths
) -> None:
    for place in pods:
        pid, _ = run([bench.program("loop"), "1", "1"], bench.directory, place.directory)
        [cgroup_id] = set(events_of(source, pid)["cgroup_id"].tolist())
        path = paths.cgroup_path(cgroup_id)
        assert path is not None
        assert paths.mount + path == str(place.directory)
        assert pod_from_cgroup(path) == PodRef(place.uid, place.container, "burstable")


def test_a_process_below_its_containers_cgroup_belongs_to_the_container(
    source: ProbeSource, bench: Bench, pods: list[Pod], paths: CgroupPaths
) -> None:
    below = pods[0].directory / "workers"
    below.mkdir()
    try:
        pid, _ = run([bench.program("loop"), "1", "1"], bench.directory, below)
        [cgroup_id] = set(events_of(source, pid)["cgroup_id"].tolist())
        path = paths.cgroup_path(cgroup_id)
    finally:
        below.rmdir()
    assert path is not None
    assert pod_from_cgroup(path) == PodRef(pods[0].uid, pods[0].container, "burstable")


def test_an_event_in_a_private_cgroup_namespace_still_names_the_pod(
    source: ProbeSource, bench: Bench, pods: list[Pod]
) -> None:
    command: list[str | Path] = ["unshare", "-C", bench.program("loop"), "1", "1"]
    pid, _ = run(command, bench.directory, pods[0].directory)
    assert set(events_of(source, pid)["cgroup_id"].tolist()) == {pods[0].cgroup_id}


def test_what_was_seen_once_is_known_after_the_pod_is_gone(paths: CgroupPaths) -> None:
    with pod() as seen, pod() as unseen:
        ids = seen.cgroup_id, unseen.cgroup_id
        path = paths.cgroup_path(ids[0])
    assert path is not None
    assert paths.cgroup_path(ids[0]) == path
    assert paths.cgroup_path(ids[1]) is None


@pytest.fixture
def told(source: ProbeSource) -> Iterator[CgroupPaths]:
    opened = CgroupPaths(gone=source.gone_cgroups)
    yield opened
    opened.close()


def test_a_pod_that_is_gone_before_its_calls_are_read_is_still_who_made_them(
    source: ProbeSource, bench: Bench, told: CgroupPaths
) -> None:
    with pod() as gone, pod() as other:
        made = {}
        for place in (gone, other):
            pid, _ = run([bench.program("loop"), "1", "1"], bench.directory, place.directory)
            made[pid] = ("pod", place.uid, place.container)
    table = ProcessTable(ProcReader(told), [], "boot")
    table.resolve(events_of(source, *made), 0)
    assert {one.pid: (one.kind, one.consumer, one.container_id) for one in table.all} == made


def test_of_the_hierarchies_only_the_unified_one_is_told_of(source: ProbeSource, tmp_path: Path) -> None:
    """Each counts ids of its own: one of cgroup v1 may have the number of a pod's."""
    with mounted(tmp_path, "-t", "cgroup", "-o", "none,name=gpuledger-test", "none"):
        (tmp_path / "of-version-1").mkdir()
        (tmp_path / "of-version-1").rmdir()
    with pod() as later:
        later_id = later.cgroup_id
    told = dict(source.gone_cgroups())
    assert later_id in told  # and so would be what was removed before it
    assert "/of-version-1" not in told.values()


def test_a_path_as_long_as_the_deepest_nesting_of_clusters_is_told_whole(told: CgroupPaths) -> None:
    names = ["kind-" + "k" * 120, "kubelet-" + "l" * 120, "inner-" + "i" * 120, "pod-" + "p" * 120, "leaf"]
    directory = Path(told.mount, *names)
    directory.mkdir(parents=True)
    cgroup_id = directory.stat().st_ino
    for place in [directory, *directory.parents[: len(names) - 1]]:
        place.rmdir()
    assert told.cgroup_path(cgroup_id) == "/" + "/".join(names)


def test_the_cgroup_of_a_process_is_the_one_that_its_events_bear(
    source: ProbeSource, bench: Bench, pods: list[Pod], paths: CgroupPaths
) -> None:
    with Running([bench.program("calls"), "wait"], bench.directory, pods[1].directory) as running:
        assert running.line() == "waiting"
        assert paths.cgroup_id_of_process(running.pid) == pods[1].cgroup_id
        running.finish()
    assert set(events_of(source, running.pid)["cgroup_id"].tolist()) == {pods[1].cgroup_id}
