"""Names of the NVIDIA driver's functions and ioctls."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from gpuledger.agent.probes.driver import ENTRY_SHIFT, choose_functions, driver_functions, probes_of
from gpuledger.agent.probes.events import RAW_EVENT
from gpuledger.agent.probes.ioctls import decode, ioctl_name
from gpuledger.agent.probes.symbols import COMPAT, NATIVE
from gpuledger.contract.operations import Operation

KALLSYMS = """\
ffffffff81000000 T _text
ffffffffc0a01000 t nvidia_open\t[nvidia]
ffffffffc0a02000 t nvidia_frontend_open\t[nvidia]
ffffffffc0a03000 T nvidia_frontend_close\t[nvidia]
ffffffffc0a04000 t nvidia_frontend_unlocked_ioctl\t[nvidia]
ffffffffc0a05000 d nvidia_unlocked_ioctl\t[nvidia]
ffffffffc0a06000 t nvidia_frontend_mmap\t[nvidia]
ffffffffc0a07000 t nvidia_frontend_compat_ioctl\t[nvidia]
ffffffffc0b01000 t uvm_unlocked_ioctl_entry\t[nvidia_uvm]
ffffffffc0c01000 t nvidia_close\t[not_nvidia]
""".splitlines()


def test_only_functions_of_the_drivers_modules_count() -> None:
    assert driver_functions(KALLSYMS) == {
        "nvidia_open",
        "nvidia_frontend_open",
        "nvidia_frontend_close",
        "nvidia_frontend_unlocked_ioctl",
        "nvidia_frontend_mmap",
        "nvidia_frontend_compat_ioctl",
        "uvm_unlocked_ioctl_entry",
    }


def test_where_there_is_a_frontend_what_lies_behind_it_is_not_probed_too() -> None:
    chosen, missing = choose_functions(driver_functions(KALLSYMS))
    assert chosen[Operation.IOCTL_OPEN] == "nvidia_frontend_open"
    assert "nvidia_open" not in chosen.values()
    assert missing == ()


def test_what_a_driver_lacks_is_said_by_all_its_names() -> None:
    chosen, missing = choose_functions({"nvidia_open", "nvidia_unlocked_ioctl"})
    assert set(chosen) == {Operation.IOCTL_OPEN, Operation.IOCTL_OTHER}
    assert missing == (
        "nvidia_frontend_close/nvidia_close",
        "uvm_unlocked_ioctl_entry",
        "nvidia_frontend_mmap/nvidia_mmap",
    )


def test_a_function_of_its_own_for_32_bit_programs_is_probed_for_those_alone() -> None:
    functions = driver_functions(KALLSYMS)
    of_both = dict(probes_of(choose_functions(functions)[0], functions))
    assert of_both["nvidia_frontend_compat_ioctl"] >> ENTRY_SHIFT == COMPAT
    assert of_both["nvidia_frontend_unlocked_ioctl"] >> ENTRY_SHIFT == NATIVE
    assert of_both["nvidia_frontend_open"] == Operation.IOCTL_OPEN
    functions.remove("nvidia_frontend_compat_ioctl")
    alone = dict(probes_of(choose_functions(functions)[0], functions))
    assert alone["nvidia_frontend_unlocked_ioctl"] == Operation.IOCTL_OTHER
    later = {"nvidia_open", "nvidia_close", "nvidia_unlocked_ioctl", "nvidia_frontend_compat_ioctl"}
    assert (
        dict(probes_of(choose_functions(later)[0], later))["nvidia_unlocked_ioctl"] == Operation.IOCTL_OTHER
    )


@pytest.mark.parametrize(
    ("raw", "command", "operation", "name"),
    [
        (Operation.IOCTL_OTHER, 0xC020462A, Operation.IOCTL_CONTROL, "RM_CONTROL"),
        (Operation.IOCTL_OTHER, 0xC030462B, Operation.IOCTL_ALLOCATE, "RM_ALLOC"),
        (Operation.IOCTL_OTHER, 0xC0104629, Operation.IOCTL_FREE, "RM_FREE"),
        (Operation.IOCTL_OTHER, 0xC038464E, Operation.IOCTL_MAP_MEMORY, "RM_MAP_MEMORY"),
        (Operation.IOCTL_OTHER, 0xC04846C8, Operation.IOCTL_OTHER, "CARD_INFO"),
        (Operation.IOCTL_OTHER, 0xC020472A, Operation.IOCTL_OTHER, "0xc020472a"),
        (Operation.IOCTL_OTHER, 0xC0204677, Operation.IOCTL_OTHER, "0xc0204677"),
        (Operation.IOCTL_UVM_OTHER, 37, Operation.IOCTL_UVM_REGISTER_GPU, "REGISTER_GPU"),
        (Operation.IOCTL_UVM_OTHER, 0x30000001, Operation.IOCTL_UVM_OTHER, "INITIALIZE"),
        (Operation.IOCTL_UVM_OTHER, 0x462A, Operation.IOCTL_UVM_OTHER, "0x462a"),
        (Operation.IOCTL_OPEN, 0, Operation.IOCTL_OPEN, ""),
        (Operation.IOCTL_MMAP, 0, Operation.IOCTL_MMAP, ""),
    ],
)
def test_an_ioctls_number_says_what_it_is(raw: int, command: int, operation: int, name: str) -> None:
    events = np.zeros(1, RAW_EVENT)
    events["operation"], events["function"], events["result"] = raw, command, errno.ENOTTY
    decoded = decode(events)
    assert decoded["operation"].tolist() == [operation]
    assert decoded["result"].tolist() == [errno.ENOTTY]
    assert ioctl_name(int(decoded["operation"][0]), command) == name
