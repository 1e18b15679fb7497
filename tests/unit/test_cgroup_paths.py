"""Cgroups and processes of this machine, and the texts that describe them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpuledger.agent.cgroups import GONE_PATHS, CgroupPaths, cgroup2_mount, process_cgroup_path
from gpuledger.agent.procfs import process_start_ns, same_start, start_ticks, tick_ns

HYBRID = """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,name=systemd
"""


def test_the_mount_is_found_by_its_type_wherever_it_is() -> None:
    assert cgroup2_mount(HYBRID.splitlines()) == "/sys/fs/cgroup/unified"
    unified = "29 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw"
    assert cgroup2_mount([unified]) == "/sys/fs/cgroup"


def test_the_root_of_the_hierarchy_is_preferred_to_a_part_of_it() -> None:
    part = "40 1 0:26 /kubepods/pod1 /mnt/part rw - cgroup2 cgroup2 rw"
    whole = "41 1 0:26 / /mnt/with\\040space rw - cgroup2 cgroup2 rw"
    assert cgroup2_mount([part, whole]) == "/mnt/with space"
    assert cgroup2_mount([part]) == "/mnt/part"


def test_a_machine_without_version_2_has_no_mount() -> None:
    assert cgroup2_mount(HYBRID.replace("cgroup2", "cgroup").splitlines()) is None


def test_the_version_2_line_is_taken_from_the_cgroups_of_a_process() -> None:
    assert process_cgroup_path("12:cpu:/v1\n1:name=systemd:/v1\n0::/kubepods/pod1\n") == "/kubepods/pod1"
    assert process_cgroup_path("0::/gone (deleted)\n") == "/gone"
    assert process_cgroup_path("12:cpu:/v1\n") is None


def test_the_start_is_read_behind_a_name_that_may_hold_anything() -> None:
    fields = " ".join(["S", *["0"] * 18, "12345", "0", "0"])
    assert start_ticks(f"7 (a) 1 (b) {fields}") == 12345


def test_the_start_of_this_process_lies_before_now_on_the_boot_clock() -> None:
    start_ns = process_start_ns(os.getpid())
    assert start_ns is not None
    assert 0 < start_ns <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert start_ns % tick_ns() == 0


def test_a_process_that_is_gone_has_no_start() -> None:
    assert process_start_ns(2**22 + 1) is None


def test_starts_agree_to_the_tick() -> None:
    tick = tick_ns()
    assert same_start(5 * tick + 1, 5 * tick)
    assert not same_start(6 * tick, 5 * tick)
    assert same_start(0, 5 * tick)


@pytest.fixture
def paths() -> CgroupPaths:
    return CgroupPaths()


def test_the_cgroup_of_this_process_is_resolved_from_its_id(paths: CgroupPaths) -> None:
    cgroup_id = paths.cgroup_id_of_process(os.getpid())
    assert cgroup_id is not None
    own = Path("/proc/self/cgroup").read_text()
    assert paths.cgroup_path(cgroup_id) == process_cgroup_path(own)
    paths.close()
    paths.close()


def test_an_id_that_no_cgroup_has_gives_nothing(paths: CgroupPaths) -> None:
    assert paths.cgroup_path(2**40) is None
    assert paths.cgroup_id_of_process(2**22 + 1) is None
    paths.close()


def test_a_removal_that_the_kernel_tells_of_a_moment_later_is_waited_for() -> None:
    answers = [[], [(2**40, "/kubepods/pod")]]
    paths = CgroupPaths(gone=lambda: answers.pop(0))
    assert paths.cgroup_path(2**40) == "/kubepods/pod"
    assert paths.cgroup_path(2**40) == "/kubepods/pod"  # and it is known from then on
    paths.close()


def test_of_removed_cgroups_that_nobody_asks_for_the_last_are_kept() -> None:
    told = [(2**40 + number, f"/pod{number}") for number in range(GONE_PATHS + 1)]
    paths = CgroupPaths(gone=lambda: told)
    assert paths.cgroup_path(2**40 + GONE_PATHS) == f"/pod{GONE_PATHS}"
    told.clear()
    assert paths.cgroup_path(2**40 + 1) == "/pod1"
    assert paths.cgroup_path(2**40) is None
    paths.close()
