"""XID errors as the driver reported them to the kernel: at their time, and each of them.

NVML's events come from a queue of unknown length that begins when one registers. What it or an exporter
tells of an error that the driver has told of is the same error.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gpuledger.agent.probes.driver import DriverXid
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device

GPUS: Final = Path("/proc/driver/nvidia/gpus")
_UUID: Final = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-f-]{36})\s*$", re.MULTILINE)
SAME_WITHIN_NS: Final = 60 * NS_PER_S  # an exporter that collects each 30 s is scraped up to 10 s later
_log = logging.getLogger(__name__)


class DriverXids:
    """Puts the driver's errors into rounds of measurements, and takes other tellings of them out.

    ``gpus`` is the driver's directory with an entry for each GPU by its PCI address.
    """

    def __init__(self, devices: Sequence[Device], gpus: Path = GPUS) -> None:
        self._gpu_of = {device.uuid: device.parent_uuid or device.uuid for device in devices}
        self._gpus = gpus
        self._told: dict[tuple[str, int], int] = {}  # (GPU, code) -> when the driver last told of it

    def merge(self, taken: Round, errors: Iterable[DriverXid], offset_ns: int) -> None:
        """``errors`` came since the previous round; ``offset_ns`` takes their time to agent time."""
        others = {
            (self._gpu_of.get(s.device), int(s.value)): s for s in taken.samples if s.field is Field.XID
        }
        found = []
        for error in errors:
            gpu = self._gpu(error)
            if gpu is None:
                continue
            key, time_ns = (gpu, error.code), error.time_ns + offset_ns
            told = others.get(key)
            # NVML may know the instance; the driver's own words name the GPU
            device = told.device if told is not None else gpu
            found.append(Sample(device, None, Field.XID, SampleSource.DRIVER, time_ns, 0, float(error.code)))
            self._told[key] = time_ns
        since_ns = taken.through_ns - SAME_WITHIN_NS
        self._told = {key: time_ns for key, time_ns in self._told.items() if time_ns > since_ns}
        taken.samples[:] = [s for s in taken.samples if not self._is_told(s)] + found

    def _is_told(self, sample: Sample) -> bool:
        key = (self._gpu_of.get(sample.device, ""), int(sample.value)) if sample.field is Field.XID else None
        return key in self._told

    def _gpu(self, error: DriverXid) -> str | None:
        with contextlib.suppress(OSError):
            match = _UUID.search((self._gpus / error.address / "information").read_text(errors="replace"))
            if match is not None and match[1] in self._gpu_of:
                return match[1]
        gpus = set(self._gpu_of.values())
        if len(gpus) == 1:
            return gpus.pop()
        _log.warning("XID %d of %s: it is no GPU that is known", error.code, error.address)
        return None
