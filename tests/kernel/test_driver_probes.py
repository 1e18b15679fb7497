"""Probes on the NVIDIA driver's entry points, in a kernel that has kprobes and modules with these names."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from gpuledger.agent.probes.compile import compile_object
from gpuledger.agent.probes.libbpf import DRIVER_BUILT
from gpuledger.agent.probes.loader import DRIVER_SOURCE
from tests.bpf.workbench import build
from tests.kernel.guest import BENCH, PREFIX
from tests.kernel.machine import FAMILIES, build_programs, run_in_guest

UUIDS = ["00010203-0405-0607-0809-0a0b0c0d0e0f", "10111213-1415-1617-1819-1a1b1c1d1e1f"]
CONTROL, FIRST, SECOND, UVM = 255, 0, 1, 0  # minor numbers of the device nodes

EXPECTED = [
    ["IOCTL_ALLOCATE", "RM_ALLOC", CONTROL, 0, 43],
    ["IOCTL_CLOSE", "", FIRST, 0, 1],
    ["IOCTL_CLOSE", "", SECOND, 0, 1],
    ["IOCTL_CLOSE", "", CONTROL, 0, 1],
    ["IOCTL_CONTROL", "RM_CONTROL", FIRST, 0, 13],
    ["IOCTL_CONTROL", "RM_CONTROL", SECOND, 0, 19],
    ["IOCTL_CONTROL", "RM_CONTROL", CONTROL, 0, 101],
    ["IOCTL_FREE", "RM_FREE", CONTROL, 0, 41],
    ["IOCTL_MAP_MEMORY", "RM_MAP_MEMORY", FIRST, 0, 17],
    ["IOCTL_MAP_MEMORY", "RM_MAP_MEMORY_DMA", SECOND, 0, 3],
    ["IOCTL_MMAP", "", FIRST, 0, 11],
    ["IOCTL_MMAP", "", SECOND, 0, 1],
    ["IOCTL_OPEN", "", FIRST, 0, 1],
    ["IOCTL_OPEN", "", SECOND, 0, 1],
    ["IOCTL_OPEN", "", CONTROL, 0, 1],
    ["IOCTL_OTHER", "0xc004467d", CONTROL, 0, 2],
    ["IOCTL_OTHER", "0xc004467f", FIRST, errno.ENOTTY, 5],
    ["IOCTL_OTHER", "CARD_INFO", FIRST, 0, 7],
    ["IOCTL_UVM_OTHER", "INITIALIZE", UVM, 0, 24],
    ["IOCTL_UVM_REGISTER_GPU", "REGISTER_GPU", UVM, 0, 2],
]
"""operation, name, minor number, errno, calls: what src/app.c does, 19 and 23 as a 32-bit program"""


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the guest saw, by family of names."""
    compile_object()
    compile_object(DRIVER_BUILT, DRIVER_SOURCE)
    place = build_programs()
    (place / BENCH).mkdir(exist_ok=True)
    build(place / BENCH)
    said = run_in_guest(["-m", "tests.kernel.guest", str(place), *FAMILIES])
    lines = [line for line in said.splitlines() if line.startswith(PREFIX)]
    assert lines, said[-4000:]
    result: dict[str, Any] = json.loads(lines[0].removeprefix(PREFIX))
    return result


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_is_counted_once_with_its_name_its_node_and_its_error(
    seen: dict[str, Any], family: str
) -> None:
    of = seen[family]
    assert (of["said"], of["status"]) == ("done", 0)
    assert of["rows"] == EXPECTED
    assert of["losses"] == [0, 0, 0, 0]
    assert of["starts"] == 1


def test_a_return_that_the_kernel_missed_is_counted_at_the_next_call_of_the_thread(
    seen: dict[str, Any],
) -> None:
    """The program has one thread, whose last call nobody follows."""
    calls = sum(int(str(row[-1])) for row in EXPECTED)
    assert seen["unreturned"] == {"events": 0, "unreturned": calls - 1, "unpaired": 0}


def test_the_names_of_both_families_are_found(seen: dict[str, Any]) -> None:
    always = ["uvm_unlocked_ioctl_entry", "uvm_api_register_gpu", "nv_report_error"]
    names = ["open", "close", "unlocked_ioctl", "mmap"]
    new, old = ([stem + name for name in names] for stem in ("nvidia_", "nvidia_frontend_"))
    assert sorted(seen["535"]["attached"]) == sorted([*old, "nvidia_frontend_compat_ioctl", *always])
    assert sorted(seen["545"]["attached"]) == sorted([*new, *always])
    assert seen["535"]["missing"] == seen["545"]["missing"] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_devices_that_a_process_registers_are_known_while_it_lives_and_said_once_after_it(
    seen: dict[str, Any], family: str
) -> None:
    assert seen[family]["registrations"] == [[UUIDS[0], False], [UUIDS[1], True]]
    assert (seen[family]["registrations_after"], seen[family]["registrations_left"]) == (2, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_driver_that_is_unloaded_is_let_go_and_another_one_is_found(
    seen: dict[str, Any], family: str
) -> None:
    """One watch saw both families, one after the other."""
    assert (seen[family]["error"], seen[family]["gone"]) == ("", True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_takes_as_long_as_it_takes(seen: dict[str, Any], family: str) -> None:
    assert len(seen[family]["slow_ns"]) == 3
    assert min(seen[family]["slow_ns"]) >= 2_000_000


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_mapped_is_as_long_as_it_was_asked_for(seen: dict[str, Any], family: str) -> None:
    assert seen[family]["mapped_bytes"] == [3 * 4096] * 11 + [2 << 20]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_error_that_the_driver_reports_is_seen_once_with_its_gpu(
    seen: dict[str, Any], family: str
) -> None:
    of = seen[family]
    assert [xid[:2] for xid in of["xids"]] == [[79, of["first_pci"]], [31, of["first_pci"]]]
    assert 0 < of["xids"][0][2] <= of["xids"][1][2]
    assert of["xids_left"] == 0


def test_where_the_function_has_another_name_the_tracepoint_tells_of_errors(seen: dict[str, Any]) -> None:
    assert seen["tracepoint"]["attached"][-1] == "nvidia_dev_xid"
    assert seen["tracepoint"]["missing"] == []


def test_an_older_kernel_counts_cuda_calls_exactly_from_the_same_object(seen: dict[str, Any]) -> None:
    """6.1 has no multi links, and structures that lie elsewhere than in the kernel of the build."""
    assert seen["kernel"].startswith("6.1.")
    assert seen["cuda"]["calls"] > 4000
    assert seen["cuda"]["events"] == seen["cuda"]["calls"]
    assert seen["cuda"]["differing"] == []
    assert seen["cuda"]["lost"] == 0


def test_an_older_kernel_tells_the_path_of_a_removed_cgroup(seen: dict[str, Any]) -> None:
    assert seen["cuda"]["gone"] is True
