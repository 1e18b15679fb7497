"""What a sample can measure: the codes of the column ``field`` of a SampleBatch, with their units.

Codes are part of the wire contract: never renumber, only append. Ratios are 0..1 whatever the source
reports (NVML: 0..100). DCGM names: NVIDIA/DCGM 4.6, dcgm_fields.h.
"""

from __future__ import annotations

from enum import IntEnum


class Field(IntEnum):
    """A measured quantity. The comment gives the unit and the DCGM field of the same meaning."""

    GPU_UTILIZATION = 1  # ratio of time in which a kernel ran (DCGM_FI_DEV_GPU_UTIL / 100)
    MEMORY_COPY_UTILIZATION = 2  # ratio (DCGM_FI_DEV_MEM_COPY_UTIL / 100)
    ENGINE_ACTIVE = 3  # ratio of time (DCGM_FI_PROF_GR_ENGINE_ACTIVE)
    SM_ACTIVE = 4  # ratio of SM-time (DCGM_FI_PROF_SM_ACTIVE)
    SM_OCCUPANCY = 5  # ratio of resident warps (DCGM_FI_PROF_SM_OCCUPANCY)
    TENSOR_ACTIVE = 6  # ratio of cycles (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)
    DRAM_ACTIVE = 7  # ratio of cycles (DCGM_FI_PROF_DRAM_ACTIVE)
    FRAMEBUFFER_USED_BYTES = 8  # bytes (DCGM_FI_DEV_FB_USED x 2**20)
    FRAMEBUFFER_TOTAL_BYTES = 9  # bytes
    POWER_WATTS = 10  # mean W over the interval (DCGM_FI_DEV_POWER_USAGE)
    ENERGY_JOULES = 11  # J spent in the interval: a difference, never the raw counter
    TEMPERATURE_CELSIUS = 12
    SM_CLOCK_HZ = 13
    PCIE_RX_BYTES = 14  # bytes in the interval
    PCIE_TX_BYTES = 15  # bytes in the interval
    NVLINK_RX_BYTES = 16  # bytes in the interval
    NVLINK_TX_BYTES = 17  # bytes in the interval
    XID = 18  # code of the last XID error seen in the interval (DCGM_FI_DEV_XID_ERRORS)
    CONTEXT_SWITCH_RATIO = 19  # ratio of time (GPM GR0_CTXSW_ACTIVE_PCT / 100)
    # per process
    PROCESS_SM_UTILIZATION = 40  # ratio of the interval in which a kernel of the process ran
    PROCESS_MEMORY_BYTES = 41  # bytes of device memory that the driver counts for the process
    PROCESS_MEMORY_UTILIZATION = 42  # ratio


class SampleSource(IntEnum):
    """Where a sample came from: the codes of the column ``source``."""

    UNKNOWN = 0
    NVML = 1
    GPM = 2
    DCGM_EXPORTER = 3
    SIMULATED = 4
    DRIVER = 5
