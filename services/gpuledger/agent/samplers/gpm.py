"""GPM: what the streaming multiprocessors did between two snapshots, on Hopper and newer.

sample1 is the older snapshot and sample2 the newer (NVIDIA/DCGM 4.6, DcgmGpmManager.cpp). GPM does not take
the profiling lock, so it runs beside Nsight and DCGM.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pynvml

from gpuledger.agent.nvml import Missing, ask
from gpuledger.contract.fields import Field

_METRICS = {
    Field.ENGINE_ACTIVE: pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    Field.SM_ACTIVE: pynvml.NVML_GPM_METRIC_SM_UTIL,
    Field.SM_OCCUPANCY: pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    Field.TENSOR_ACTIVE: pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    Field.DRAM_ACTIVE: pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}


class GpmReader:
    """The two snapshots of one device, used in turn."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._older: Any = ask(pynvml.nvmlGpmSampleAlloc)
        self._newer: Any = ask(pynvml.nvmlGpmSampleAlloc)
        self._primed = False

    @staticmethod
    def open(handle: Any) -> GpmReader | None:
        """A reader with its first snapshot taken, or None where the device has no GPM."""
        try:
            if not ask(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice:
                return None
            reader = GpmReader(handle)
            reader.prime()
        except Missing:
            return None
        return reader

    def prime(self) -> None:
        """Take the snapshot that the next reading counts from."""
        ask(pynvml.nvmlGpmSampleGet, self._handle, self._older)
        self._primed = True

    def read(self) -> dict[Field, float | None]:
        """Percent since the previous snapshot; None where GPM has no value. Raises Missing."""
        if not self._primed:
            self.prime()
            raise Missing("no_data")
        self._primed = False
        ask(pynvml.nvmlGpmSampleGet, self._handle, self._newer)
        query = pynvml.c_nvmlGpmMetricsGet_t()
        query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics = len(_METRICS)
        query.sample1, query.sample2 = self._older, self._newer
        for slot, metric in enumerate(_METRICS.values()):
            query.metrics[slot].metricId = metric
        self._older, self._newer = self._newer, self._older
        self._primed = True
        ask(pynvml.nvmlGpmMetricsGet, query)
        return {
            field: float(query.metrics[slot].value) if query.metrics[slot].nvmlReturn == 0 else None
            for slot, field in enumerate(_METRICS)
        }

    def close(self) -> None:
        """Free the snapshots."""
        for sample in (self._older, self._newer):
            with contextlib.suppress(Missing):
                ask(pynvml.nvmlGpmSampleFree, sample)
