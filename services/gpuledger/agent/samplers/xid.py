"""XID errors, as NVML tells of them: once each, to whoever has asked before."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pynvml

from gpuledger.agent.nvml import Missing, ask
from gpuledger.contract.records import Device

MAX_EVENTS: Final = 256  # in one round; a failing board may tell of thousands a second, and the last counts
NO_INSTANCE: Final = 0xFFFFFFFF


class Xid(NamedTuple):
    """An error of a device (UUID): NVIDIA's list of XID errors says what each code means."""

    device: str
    code: int


class XidEvents:
    """Errors since it was opened. Borrows the handles; silent where NVML has no events."""

    def __init__(self, devices: Sequence[Device], handles: Sequence[Any]) -> None:
        self._uuid_of: dict[int, str] = {}
        self._instances = {(d.parent_uuid, d.gpu_instance): d.uuid for d in devices if d.parent_uuid}
        self._set: Any = None
        try:
            self._set = ask(pynvml.nvmlEventSetCreate)
        except Missing:
            return
        for device, handle in zip(devices, handles, strict=True):
            if not device.parent_uuid:
                self._uuid_of[_address(handle)] = device.uuid
                with contextlib.suppress(Missing):
                    ask(
                        pynvml.nvmlDeviceRegisterEvents,
                        handle,
                        pynvml.nvmlEventTypeXidCriticalError,
                        self._set,
                    )

    def read(self) -> list[Xid]:
        """The errors since the last call, without waiting."""
        found: list[Xid] = []
        if self._set is None:
            return found
        with contextlib.suppress(Missing):  # a timeout: there is none; or the driver has gone, as others say
            for _ in range(MAX_EVENTS):
                event = ask(pynvml.nvmlEventSetWait_v2, self._set, 0)
                uuid = self._uuid_of.get(_address(event.device))
                if uuid is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                    instance = self._instances.get((uuid, event.gpuInstanceId), uuid)
                    found.append(Xid(instance, int(event.eventData)))
        return found

    def close(self) -> None:
        """Give the events back."""
        if self._set is not None:
            with contextlib.suppress(Missing):
                ask(pynvml.nvmlEventSetFree, self._set)
            self._set = None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
