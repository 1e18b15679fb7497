"""Which numbers are no measurements.

Sentinels: NVIDIA/DCGM 4.6 dcgm_structs.h (a value is blank from the base on, not only at it) and nvml.h
(NVML_VALUE_NOT_AVAILABLE = -1, unsigned). Absurd values are seen in the field: utilisations of 1k to 200k,
4294967295, 2147483632.
"""

from __future__ import annotations

import math

INT32_BLANK = 0x7FFFFFF0
INT64_BLANK = 0x7FFFFFFFFFFFFFF0
FP64_BLANK = 2.0**47
NOT_AVAILABLE_32 = 0xFFFFFFFF
NOT_AVAILABLE_64 = 0xFFFFFFFFFFFFFFFF
MAX_PERCENT = 105.0  # counters and clock are read apart, so a busy device may show a little above 100
MAX_DEVICE_BYTES = 1 << 44  # 16 TiB; the largest device has well below 1 TiB
MAX_WATTS = 10_000.0  # no board takes more
MAX_MIB_PER_S = 64e6  # NVLink of the largest boards moves some 2e6
MAX_CELSIUS = 200  # a board switches itself off far below
MAX_MHZ = 10_000  # no clock is near
_MIB = 1 << 20
_HZ_PER_MHZ = 1e6

BLANK, ABSURD = "blank", "absurd"


def ratio_of_percent(percent: float) -> float | str:
    """0..1 of a percentage, or why it is none; what lies a little above 100 is 1 and not missing."""
    if math.isnan(percent) or percent >= INT32_BLANK or percent < 0:
        return BLANK
    if percent > MAX_PERCENT:
        return ABSURD
    return min(percent / 100.0, 1.0)


def bytes_of(value: int | None, total: int = MAX_DEVICE_BYTES) -> int | str:
    """A size on a device of ``total`` bytes, or why it is none."""
    if value is None or value < 0 or value >= INT64_BLANK:
        return BLANK
    return ABSURD if value > total else value


def watts_of(milliwatts: int) -> float | str:
    """Watts, or why it is none."""
    if milliwatts < 0 or milliwatts >= INT32_BLANK:
        return BLANK
    watts = milliwatts / 1000.0
    return ABSURD if watts > MAX_WATTS else watts


def bytes_of_rate(mib_per_s: float, span_s: float) -> float | str:
    """Bytes in ``span_s``, or why it is none."""
    if math.isnan(mib_per_s) or mib_per_s < 0 or mib_per_s >= INT32_BLANK:
        return BLANK
    return ABSURD if mib_per_s > MAX_MIB_PER_S else mib_per_s * _MIB * span_s


def celsius_of(value: int) -> float | str:
    """Degrees, or why it is none."""
    if value < 0 or value >= INT32_BLANK:
        return BLANK
    return ABSURD if value > MAX_CELSIUS else float(value)


def hz_of(mhz: int) -> float | str:
    """A clock, or why it is none."""
    if mhz < 0 or mhz >= INT32_BLANK:
        return BLANK
    return ABSURD if mhz > MAX_MHZ else mhz * _HZ_PER_MHZ
