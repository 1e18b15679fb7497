"""DCGM's fields: one name for each, whatever an exporter calls it, and which numbers are no measurements.

Names: NVIDIA/DCGM 4.6 dcgm_fields.h (data/dcgm-fields.tsv), dcgm-exporter's 1.x-compatibility-metrics.csv.
Sentinels: dcgm_structs.h; a value is blank from the base on, not only at it.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from typing import Final

from gpuledger.agent.samplers.hygiene import (
    FP64_BLANK,
    INT32_BLANK,
    MAX_DEVICE_BYTES,
    MAX_PERCENT,
    MAX_WATTS,
    NOT_AVAILABLE_32,
)

PREFIX: Final = "DCGM_"
OLD_PREFIX: Final = "dcgm_"
MIB: Final = 1 << 20
OPENMETRICS_SUFFIX: Final = "_total"  # what relays add to counters; DCGM's own names are in capitals
BLANK_CODES: Final = 4  # each base is followed by not found, not supported, not permitted
MAX_RATIO: Final = 2.0  # small MIG instances show above 1 (NVIDIA/DCGM#152); percentages do not pass
_WHOLE: Final = {MAX_RATIO: 1.0, MAX_PERCENT: 100.0}
MAX_MHZ: Final = 100_000.0  # no clock is near
MAX_CELSIUS: Final = 1_000.0
MAX_XID: Final = 100_000.0
_FLOAT_INT64_BLANK: Final = 2.0**63  # as a float all four blanks of 64 bits are this number

_OLD_NAMES: Final = {
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_mem_copy_utilization": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "dcgm_enc_utilization": "DCGM_FI_DEV_ENC_UTIL",
    "dcgm_dec_utilization": "DCGM_FI_DEV_DEC_UTIL",
    "dcgm_memory_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_ecc_sbe_volatile_total": "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "dcgm_ecc_dbe_volatile_total": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "dcgm_ecc_sbe_aggregate_total": "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "dcgm_ecc_dbe_aggregate_total": "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    "dcgm_retired_pages_sbe": "DCGM_FI_DEV_RETIRED_SBE",
    "dcgm_retired_pages_dbe": "DCGM_FI_DEV_RETIRED_DBE",
    "dcgm_retired_pages_pending": "DCGM_FI_DEV_RETIRED_PENDING",
    "dcgm_nvlink_flit_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_data_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
}
"""Names of the 1.x namespace that are not simply the lower-case classic name without FI_DEV."""

_COUNTER: Final = re.compile(r"_TOTAL|_COUNTER|_COUNT|_CYCLES|ENERGY_CONSUMPTION|_VIOLATION|_ERROR|_EVENTS")
_PROF_RATIO: Final = re.compile(r"DCGM_FI_PROF_\w*(?:_ACTIVE|_OCCUPANCY|_RATIO)")
_PROF_RATE: Final = re.compile(r"DCGM_FI_PROF_(?:PCIE|NVLINK|C2C)_\w*BYTES\w*")


@cache
def aliases() -> dict[str, str]:
    """Canonical name of DCGM 4.6 -> classic name, for each field that was renamed."""
    text = files("gpuledger.agent").joinpath("data/dcgm-fields.tsv").read_text(encoding="ascii")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {canonical: classic for canonical, classic, _ in rows}


@cache
def _upper_bounds() -> dict[str, float]:
    """Largest believable value of fields whose name alone does not say their kind."""
    mib = MAX_DEVICE_BYTES / MIB
    return {
        **{f"DCGM_FI_DEV_{name}": mib for name in ("FB_TOTAL", "FB_FREE", "FB_USED", "FB_RESERVED")},
        **{f"DCGM_FI_DEV_BAR1_{name}": mib for name in ("TOTAL", "FREE", "USED")},
        **{f"DCGM_FI_DEV_{name}_UTIL": MAX_PERCENT for name in ("GPU", "MEM_COPY", "ENC", "DEC")},
        "DCGM_FI_DEV_FB_USED_PERCENT": MAX_PERCENT,
        **{f"DCGM_FI_DEV_POWER_USAGE{tail}": MAX_WATTS for tail in ("", "_INSTANT")},
        "DCGM_FI_DEV_XID_ERRORS": MAX_XID,
    }


def classic_name(name: str) -> str | None:
    """The classic name of a series, None where it is none of DCGM's."""
    if name.startswith(PREFIX):
        name = name.removesuffix(OPENMETRICS_SUFFIX)
        return aliases().get(name, name)
    if not name.startswith(OLD_PREFIX):
        return None
    known = _OLD_NAMES.get(name)
    if known is not None:
        return known
    upper = name.upper()
    if upper.startswith(("DCGM_FI_", "DCGM_EXP_")):
        return aliases().get(upper, upper)
    return "DCGM_FI_DEV_" + upper.removeprefix(PREFIX)


def clean(field: str, value: float) -> float | None:
    """The value of a field (classic name, DCGM's own unit), None where it is no measurement."""
    if not math.isfinite(value) or abs(value) >= _FLOAT_INT64_BLANK or value == NOT_AVAILABLE_32:
        return None
    if any(base <= value < base + BLANK_CODES for base in (INT32_BLANK, FP64_BLANK)):
        return None
    low, high = _bounds(field)
    if not low <= value <= high:
        return None
    return min(value, _WHOLE.get(high, value))  # a little above all is all


@cache
def _known_bounds(field: str) -> tuple[float, float]:
    bound = _upper_bounds().get(field)
    if bound is not None:
        return 0.0, bound
    if _PROF_RATE.fullmatch(field):
        return 0.0, FP64_BLANK
    if _PROF_RATIO.fullmatch(field):
        return 0.0, MAX_RATIO
    if field.endswith("_CLOCK"):
        return 0.0, MAX_MHZ
    if "_TEMP" in field:
        return -MAX_CELSIUS, MAX_CELSIUS
    if _COUNTER.search(field):
        return 0.0, _FLOAT_INT64_BLANK
    if field.startswith("DCGM_FI_PROF_"):
        return 0.0, FP64_BLANK
    return -_FLOAT_INT64_BLANK, _FLOAT_INT64_BLANK


def _bounds(field: str) -> tuple[float, float]:
    return _known_bounds(field) if len(field) < 128 else (-_FLOAT_INT64_BLANK, _FLOAT_INT64_BLANK)
