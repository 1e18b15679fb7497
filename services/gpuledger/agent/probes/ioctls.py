"""Names and kinds of the NVIDIA driver's ioctls.

/dev/nvidia* and nvidiactl: _IOWR('F', number, size), numbers of nv-ioctl-numbers.h and nv_escape.h;
nvidia-uvm takes plain numbers (uvm_ioctl.h). Both are the same in the open kernel modules from 515 to 595.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gpuledger.agent.probes.events import RawEvents
from gpuledger.contract.operations import Operation

_TYPE: Final = ord("F")

DRIVER: Final = {
    0x27: "RM_ALLOC_MEMORY",
    0x29: "RM_FREE",
    0x2A: "RM_CONTROL",
    0x2B: "RM_ALLOC",
    0x34: "RM_DUP_OBJECT",
    0x4A: "RM_VID_HEAP_CONTROL",
    0x4E: "RM_MAP_MEMORY",
    0x57: "RM_MAP_MEMORY_DMA",
    200: "CARD_INFO",
    201: "REGISTER_FD",
    206: "ALLOC_OS_EVENT",
    210: "CHECK_VERSION_STR",
    211: "IOCTL_XFER_CMD",
    212: "ATTACH_GPUS_TO_FD",
    214: "SYS_PARAMS",
    217: "EXPORT_TO_DMABUF",
    218: "WAIT_OPEN_COMPLETE",
}
"""Number of an ioctl of /dev/nvidia* -> its name."""

UVM: Final = {
    0x30000001: "INITIALIZE",
    0x30000002: "DEINITIALIZE",
    25: "REGISTER_GPU_VASPACE",
    27: "REGISTER_CHANNEL",
    33: "MAP_EXTERNAL_ALLOCATION",
    34: "FREE",
    37: "REGISTER_GPU",
    38: "UNREGISTER_GPU",
    51: "MIGRATE",
    66: "UNMAP_EXTERNAL",
    73: "CREATE_EXTERNAL_RANGE",
    75: "MM_INITIALIZE",
    78: "ALLOC_DEVICE_P2P",
}
"""ioctl of nvidia-uvm -> its name."""

_KINDS: Final = {
    0x27: Operation.IOCTL_ALLOCATE,
    0x2B: Operation.IOCTL_ALLOCATE,
    0x29: Operation.IOCTL_FREE,
    0x2A: Operation.IOCTL_CONTROL,
    0x4E: Operation.IOCTL_MAP_MEMORY,
    0x57: Operation.IOCTL_MAP_MEMORY,
}


def ioctl_name(operation: int, command: int) -> str:
    """How the driver's sources call the ioctl; its number where they have no name for it, "" for none."""
    if operation in (Operation.IOCTL_OPEN, Operation.IOCTL_CLOSE, Operation.IOCTL_MMAP):
        return ""
    if operation in (Operation.IOCTL_UVM_OTHER, Operation.IOCTL_UVM_REGISTER_GPU):
        return UVM.get(command, f"{command:#x}")
    if command >> 8 & 0xFF != _TYPE:
        return f"{command:#x}"
    return DRIVER.get(command & 0xFF, f"{command:#x}")


def decode(events: RawEvents) -> RawEvents:
    """The same events with the operation that each ioctl's number stands for; changes them in place."""
    command: npt.NDArray[np.uint64] = events["function"]
    operation = events["operation"]
    driver = (operation == Operation.IOCTL_OTHER) & (command >> np.uint64(8) & np.uint64(0xFF) == _TYPE)
    number = command & np.uint64(0xFF)
    for which, kind in _KINDS.items():
        operation[driver & (number == which)] = kind
    registers = (operation == Operation.IOCTL_UVM_OTHER) & (command == 37)
    operation[registers] = Operation.IOCTL_UVM_REGISTER_GPU
    return events
