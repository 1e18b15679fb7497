"""NVML through pynvml: one session, its errors as short reasons, and the devices of the node."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from gpuledger.contract.errors import Unsupported
from gpuledger.contract.records import Device

T = TypeVar("T")

_MIG_IN_NAME = " MIG "  # NVML: "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
MAX_SLOTS = 63  # what a long has bits for; the boards that there are have up to 12
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
    pynvml.NVML_ERROR_UNINITIALIZED: "lost",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "lost",
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
    except (
        pynvml.NVMLLibraryMismatchError
    ) as error:  # which is no NVMLError: the driver is older than the call
        raise Missing("not_supported") from error


class NvmlSession:
    """NVML between init and shutdown. ``handles`` has one handle a device, in the order of ``devices``.

    The MIG instances of a GPU follow it; the GPU itself is then shared as ``mig``, and nobody runs on it.
    """

    def __init__(self, may_wait: bool = False) -> None:
        """``may_wait``: where there is no NVML yet the session has no devices, until `reopen` finds it. Else
        raises Unsupported there."""
        self.devices: list[Device] = []
        self.handles: list[Any] = []
        self.away = ""
        """Why NVML does not start; empty while it does."""
        self._nameless: list[int] = []  # GPUs by index that did not say who they are
        try:
            self._start()
        except Unsupported as error:
            if not may_wait:
                raise
            self.away = str(error)

    def _start(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unsupported(f"NVML does not start: {error}; run with --samplers none") from error
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                self._add(index)
        except pynvml.NVMLError as error:
            self.close()
            self.devices, self.handles = [], []
            raise Unsupported(f"NVML does not tell its devices: {error}; run with --samplers none") from error

    def reopen(self) -> bool:
        """Start NVML anew, as is needed after the driver was loaded again; whether it is there with a device.

        All handles from before are of no more use, whatever it returns. Where the devices are not the same
        as before, ``devices`` is another list.
        """
        self.close()
        fresh = NvmlSession(may_wait=True)
        self.away = fresh.away or ("" if fresh.devices else "NVML is there and has no device")
        if self.away:
            return False
        self._nameless = fresh._nameless
        handle_of = {_identity(d): h for d, h in zip(fresh.devices, fresh.handles, strict=True)}
        if handle_of.keys() == set(map(_identity, self.devices)):
            self.handles[:] = [handle_of[_identity(device)] for device in self.devices]
        else:
            self.devices, self.handles = fresh.devices, fresh.handles
        return True

    def look_again(self) -> bool:
        """Whether the devices are no longer those that they were: a MIG layout is another, or a GPU says who
        it is that did not before. One that is lost says nothing."""
        return any(map(_tells_its_name, self._nameless)) or any(
            self._is_divided_anew(gpu, handle)
            for gpu, handle in zip(self.devices, self.handles, strict=True)
            if not gpu.parent_uuid
        )

    def _is_divided_anew(self, gpu: Device, handle: Any) -> bool:
        known = {device.uuid for device in self.devices if device.parent_uuid == gpu.uuid}
        try:
            enabled = ask(pynvml.nvmlDeviceGetMigMode, handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
            if enabled != (gpu.sharing == "mig"):
                return True
            return enabled and known != {_uuid(instance) for instance in _instances(handle)}
        except Missing:
            return False

    def _add(self, index: int) -> None:
        try:
            handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = _uuid(handle)
        except Missing:
            self._nameless.append(index)  # it fell off the bus before, or is not ready yet
            return
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
        with contextlib.suppress(Missing):
            if ask(pynvml.nvmlDeviceGetMigMode, handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
                device.sharing = "mig"
                self._add_instances(handle, device)

    def _add_instances(self, gpu: Any, device: Device) -> None:
        device.slices_total = ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu)
        with contextlib.suppress(Missing):
            device.slice_starts, device.slice_size = _one_slice(gpu)
        found: list[tuple[Any, Device]] = []
        for handle in _instances(gpu):
            with contextlib.suppress(Missing):
                found.append((handle, _instance(handle, device)))
        for handle, instance in found:
            alone = sum(other.gpu_instance == instance.gpu_instance for _, other in found) == 1
            with contextlib.suppress(Missing):
                attributes = ask(pynvml.nvmlDeviceGetAttributes_v2, handle)
                # what no compute instance covers of a GPU instance is nobody else's
                instance.slices = int(
                    attributes.gpuInstanceSliceCount if alone else attributes.computeInstanceSliceCount
                )
                instance.sm_count = int(attributes.multiprocessorCount)
            with contextlib.suppress(Missing):
                made = ask(pynvml.nvmlDeviceGetGpuInstanceById, gpu, instance.gpu_instance)
                placement = ask(pynvml.nvmlGpuInstanceGetInfo, made).placement
                instance.placement_start, instance.placement_size = int(placement.start), int(placement.size)
            self.devices.append(instance)
            self.handles.append(handle)

    def close(self) -> None:
        """Shut NVML down."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _identity(device: Device) -> tuple[str, int, int]:
    """What makes it the same device after a driver was loaded again."""
    return device.uuid, device.index, device.minor


def _tells_its_name(index: int) -> bool:
    with contextlib.suppress(Missing):
        return bool(_uuid(ask(pynvml.nvmlDeviceGetHandleByIndex, index)))
    return False


def _instances(gpu: Any) -> list[Any]:
    """Handles of the MIG instances of a GPU; they need not be numbered without holes. Raises Missing."""
    found = []
    for index in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu)):
        try:
            found.append(ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index))
        except Missing as missing:
            if missing.reason != "not_found":
                raise
    return found


def _one_slice(gpu: Any) -> tuple[int, int]:
    """(slots of the GPU at which an instance of one slice may begin, bit n for slot n; how many slots it
    takes). Raises Missing where the driver does not say it."""
    profile = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE)
    count = ctypes.c_uint(0)
    possible = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    ask(possible, gpu, profile.id, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    ask(possible, gpu, profile.id, places, ctypes.byref(count))
    found = [place for place in places[: count.value] if place.start < MAX_SLOTS]
    return sum(1 << start for start in {place.start for place in found}), found[0].size if found else 0


def _uuid(handle: Any) -> str:
    return _text(ask(pynvml.nvmlDeviceGetUUID, handle))


def _instance(handle: Any, gpu: Device) -> Device:
    """A MIG instance that lies on ``gpu``. Raises Missing where it has no identity."""
    instance = Device(
        uuid=_uuid(handle),
        index=gpu.index,
        minor=gpu.minor,
        parent_uuid=gpu.uuid,
        gpu_instance=ask(pynvml.nvmlDeviceGetGpuInstanceId, handle),
        compute_instance=ask(pynvml.nvmlDeviceGetComputeInstanceId, handle),
        slices_total=gpu.slices_total,
        model=gpu.model,
    )
    with contextlib.suppress(Missing):
        name = _text(ask(pynvml.nvmlDeviceGetName, handle))
        instance.mig_profile = name.rpartition(_MIG_IN_NAME)[2] if _MIG_IN_NAME in name else ""
    with contextlib.suppress(Missing):
        instance.memory_total_bytes = int(ask(pynvml.nvmlDeviceGetMemoryInfo, handle).total)
    return instance


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
