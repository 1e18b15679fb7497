"""NVML through pynvml: one session, its errors as short reasons, and the devices of the node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from gpuledger.contract.errors import Unsupported
from gpuledger.contract.records import Device

T = TypeVar("T")

_REASONS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not_supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost",
    pynvml.NVML_ERROR_NOT_FOUND: "not_found",
    pynvml.NVML_ERROR_NO_DATA: "no_data",
    pynvml.NVML_ERROR_NOT_READY: "no_data",
    pynvml.NVML_ERROR_RESET_REQUIRED: "lost",
}


class Missing(Exception):  # a value, not a fault: it never leaves the samplers
    """NVML has no value; ``reason`` is the word that a gap carries."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def ask(function: Callable[..., T], *arguments: Any) -> T:
    """NVML's answer; raises Missing where it has none."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise Missing(_REASONS.get(error.value, f"nvml_{error.value}")) from error


class NvmlSession:
    """NVML between init and shutdown. ``handles`` has one handle a device, in the order of ``devices``."""

    def __init__(self) -> None:
        """Raises Unsupported where there is no NVML."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unsupported(f"NVML does not start: {error}; run with --samplers none") from error
        self.devices: list[Device] = []
        self.handles: list[Any] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            self._add(index)

    def _add(self, index: int) -> None:
        try:
            handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = _text(ask(pynvml.nvmlDeviceGetUUID, handle))
        except Missing:
            return  # a GPU that fell off the bus before the agent started has no identity to speak of
        device = Device(uuid=uuid, index=index)
        with contextlib.suppress(Missing):
            device.minor = ask(pynvml.nvmlDeviceGetMinorNumber, handle)
        with contextlib.suppress(Missing):
            device.model = _text(ask(pynvml.nvmlDeviceGetName, handle))
        with contextlib.suppress(Missing):
            device.memory_total_bytes = int(ask(pynvml.nvmlDeviceGetMemoryInfo, handle).total)
        with contextlib.suppress(Missing):
            device.sm_count = _sm_count(handle)
        self.devices.append(device)
        self.handles.append(handle)

    def close(self) -> None:
        """Shut NVML down."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


# CUDA cores of one streaming multiprocessor by compute capability (CUDA programming guide, arithmetic
# throughput table, 32-bit floating point). NVML tells cores, not multiprocessors.
_CORES_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128} | {
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
}


def _sm_count(handle: Any) -> int:
    capability = tuple(ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle))
    cores = ask(pynvml.nvmlDeviceGetNumGpuCores, handle)
    return int(cores) // _CORES_PER_SM[capability] if capability in _CORES_PER_SM else 0


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
