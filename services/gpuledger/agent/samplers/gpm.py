"""GPM: what the streaming multiprocessors did between two snapshots, on Hopper and newer.

sample1 is the older snapshot and sample2 the newer (NVIDIA/DCGM 4.6, DcgmGpmManager.cpp). GPM does not take
the profiling lock, so it runs beside Nsight and DCGM.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Final

import numpy as np
import pynvml

from gpuledger.agent.nvml import Missing, ask
from gpuledger.agent.samplers.hygiene import BLANK, bytes_of_rate, ratio_of_percent
from gpuledger.contract.fields import Field

_RATIOS = {
    Field.ENGINE_ACTIVE: pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    Field.SM_ACTIVE: pynvml.NVML_GPM_METRIC_SM_UTIL,
    Field.SM_OCCUPANCY: pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    Field.TENSOR_ACTIVE: pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    Field.DRAM_ACTIVE: pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    Field.CONTEXT_SWITCH_RATIO: pynvml.NVML_GPM_METRIC_GR0_CTXSW_ACTIVE_PCT,
}
_RATES = {
    Field.PCIE_TX_BYTES: pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    Field.PCIE_RX_BYTES: pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    Field.NVLINK_TX_BYTES: pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    Field.NVLINK_RX_BYTES: pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
}
"""MiB a second."""
_METRICS = _RATIOS | _RATES
_METRIC: Final = pynvml.c_nvmlGpmMetric_t
_READ: Final = np.dtype(
    {
        "names": ["code", "value"],
        "formats": ["<u4", "<f8"],
        "offsets": [_METRIC.nvmlReturn.offset, _METRIC.value.offset],
        "itemsize": ctypes.sizeof(_METRIC),
    }
)
"""What NVML writes of a metric: attribute by attribute it would cost a call in Python each."""


@functools.cache
def _query() -> Any:
    """Asks for all the metrics; 19 KB, so that there is one for all devices, which are read one by one."""
    query = pynvml.c_nvmlGpmMetricsGet_t()
    query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    query.numMetrics = len(_METRICS)
    for slot, metric in enumerate(_METRICS.values()):
        query.metrics[slot].metricId = metric
    return query


class GpmReader:
    """The two snapshots of one device, used in turn.

    A MIG instance is asked for through its GPU: ``handle`` is the GPU's, ``gpu_instance`` says which.
    """

    def __init__(self, handle: Any, gpu_instance: int | None = None) -> None:
        self._handle = handle
        self._gpu_instance = gpu_instance
        self._older: Any = ask(pynvml.nvmlGpmSampleAlloc)
        self._newer: Any = ask(pynvml.nvmlGpmSampleAlloc)
        self._primed = False

    @staticmethod
    def open(handle: Any, gpu_instance: int | None = None) -> GpmReader | None:
        """A reader with its first snapshot taken, or None where the device has no GPM."""
        try:
            if not ask(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice:
                return None
            reader = GpmReader(handle, gpu_instance)
            reader.prime()
        except Missing:
            return None
        return reader

    def prime(self) -> None:
        """Take the snapshot that the next reading counts from."""
        self._take(self._older)
        self._primed = True

    def _take(self, sample: Any) -> None:
        if self._gpu_instance is None:
            ask(pynvml.nvmlGpmSampleGet, self._handle, sample)
        else:
            ask(pynvml.nvmlGpmMigSampleGet, self._handle, self._gpu_instance, sample)

    def read(self, span_s: float) -> dict[Field, float | str]:
        """Values since the previous snapshot, ``span_s`` ago: ratios and bytes, or why there is none.

        Raises Missing where there is nothing at all.
        """
        if not self._primed:
            self.prime()
            raise Missing("no_data")
        self._primed = False
        self._take(self._newer)
        query = _query()
        query.sample1, query.sample2 = self._older, self._newer
        read = np.frombuffer(query, _READ, len(_METRICS), type(query).metrics.offset)
        read["code"] = read["value"] = 0  # what NVML leaves as it is must not be another device's
        self._older, self._newer = self._newer, self._older
        self._primed = True
        ask(pynvml.nvmlGpmMetricsGet, query)
        found = zip(_METRICS, read["code"].tolist(), read["value"].tolist(), strict=True)
        return {field: _value(field, code, value, span_s) for field, code, value in found}

    def close(self) -> None:
        """Free the snapshots."""
        for sample in (self._older, self._newer):
            with contextlib.suppress(Missing):
                ask(pynvml.nvmlGpmSampleFree, sample)


def _value(field: Field, code: int, value: float, span_s: float) -> float | str:
    if code == pynvml.NVML_ERROR_NOT_SUPPORTED:
        return "not_supported"
    if code != pynvml.NVML_SUCCESS:
        return BLANK
    return bytes_of_rate(value, span_s) if field in _RATES else ratio_of_percent(value)
