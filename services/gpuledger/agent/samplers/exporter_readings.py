"""From an exporter's scrapes to samples in the contract's units, each with the interval it speaks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpuledger.agent.dcgm_fields import MIB
from gpuledger.agent.exposition import Exposition, ExpositionSample
from gpuledger.agent.samplers.samples import Gap, Sample
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device

SOURCE: Final = SampleSource.DCGM_EXPORTER
JOULES_PER_MILLIJOULE: Final = 1e-3
HZ_PER_MHZ: Final = 1e6

RATIOS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": (Field.GPU_UTILIZATION, 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (Field.MEMORY_COPY_UTILIZATION, 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (Field.ENGINE_ACTIVE, 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": (Field.SM_ACTIVE, 1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": (Field.SM_OCCUPANCY, 1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (Field.TENSOR_ACTIVE, 1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": (Field.DRAM_ACTIVE, 1.0),
}
"""Means over the time since the previous scrape, and what makes a ratio of them."""
INSTANTS: Final = {
    "DCGM_FI_DEV_FB_USED": (Field.FRAMEBUFFER_USED_BYTES, float(MIB)),
    "DCGM_FI_DEV_FB_TOTAL": (Field.FRAMEBUFFER_TOTAL_BYTES, float(MIB)),
    "DCGM_FI_DEV_POWER_USAGE": (Field.POWER_WATTS, 1.0),
    "DCGM_FI_DEV_GPU_TEMP": (Field.TEMPERATURE_CELSIUS, 1.0),
    "DCGM_FI_DEV_SM_CLOCK": (Field.SM_CLOCK_HZ, HZ_PER_MHZ),
}
RATES: Final = {
    "DCGM_FI_PROF_PCIE_RX_BYTES": Field.PCIE_RX_BYTES,
    "DCGM_FI_PROF_PCIE_TX_BYTES": Field.PCIE_TX_BYTES,
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Field.NVLINK_RX_BYTES,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Field.NVLINK_TX_BYTES,
}
"""Bytes a second, averaged by DCGM."""
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
XID: Final = "DCGM_FI_DEV_XID_ERRORS"
CYCLES: Final = "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL"
ACTIVE_CYCLES: Final = "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"
_WANTED: Final = {
    **{name: field for name, (field, _) in (RATIOS | INSTANTS).items()},
    **RATES,
    ENERGY: Field.ENERGY_JOULES,
    XID: Field.XID,
}
_NEEDED: Final = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE")
"""Fields whose absence is said once for each device: one decides who pays, the other how well it ran."""


class Counter(NamedTuple):
    """A counter's reading and the agent time of it."""

    at_ns: int
    value: float


class ExporterReadings:
    """What must be remembered between the scrapes of one exporter. ``devices`` are the node's own."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._counters: dict[tuple[str, str], Counter] = {}
        self._xid: dict[str, float] = {}
        self._seen: dict[str, set[str]] = {}
        self._said: set[tuple[str, str]] = set()

    def rebase(self, shift_ns: int) -> None:
        """Go over to another epoch's time."""
        self._counters = {
            key: Counter(counter.at_ns + shift_ns, counter.value) for key, counter in self._counters.items()
        }

    def take(self, scrape: Exposition, start_ns: int, end_ns: int) -> tuple[list[Sample], list[Gap]]:
        """Samples and gaps of a scrape at ``end_ns`` that speaks for the time since ``start_ns``."""
        taken = _Taken(start_ns, end_ns)
        for device, values in self._by_device(scrape.samples, taken).items():
            self._device(device, values, taken)
        return taken.samples, taken.gaps

    def _by_device(
        self, samples: Sequence[ExpositionSample], taken: _Taken
    ) -> dict[str, dict[str, float | None]]:
        """Device UUID -> field -> value, of the fields that are wanted; values of single pods left out."""
        grouped: dict[tuple[str, int | None, str], list[ExpositionSample]] = {}
        for sample in samples:
            grouped.setdefault(sample[:3], []).append(sample)
        found: dict[str, dict[str, float | None]] = {}
        for (uuid, instance, field), group in grouped.items():
            device = self._device_uuid(uuid, instance)
            if device is None:
                reason = "unknown_device" if instance is None else "unknown_instance"
                self._once(uuid if instance is None else f"{uuid}/{instance}", reason, taken)
                continue
            whole = [sample for sample in group if sample.pod is None]
            if whole or len(group) == 1:
                found.setdefault(device, {})[field] = (whole or group)[0].value
        return found

    def _device_uuid(self, uuid: str, instance: int | None) -> str | None:
        """NVML's UUID: the exporter names a MIG instance by its GPU and its number there."""
        if instance is None:
            return uuid if any(device.uuid == uuid for device in self._devices) else None
        same = [d.uuid for d in self._devices if d.parent_uuid == uuid and d.gpu_instance == instance]
        return same[0] if len(same) == 1 else None  # one value can not be split between compute instances

    def _once(
        self, subject: str, reason: str, taken: _Taken, field: Field | None = None, device: str = ""
    ) -> None:
        if (subject, reason) not in self._said:
            self._said.add((subject, reason))
            taken.gap(device, field, reason)

    def _device(self, device: str, values: dict[str, float | None], taken: _Taken) -> None:
        seen = self._seen.setdefault(device, set())
        for name in sorted(seen - values.keys()):
            taken.gap(device, _WANTED[name], "absent")  # multiplexed groups come and go; N/A has no line
        for name in _NEEDED:
            if name not in seen and name not in values and not (name == _NEEDED[1] and CYCLES in values):
                self._once(f"{device} {name}", "not_exported", taken, _WANTED[name], device)
        seen |= values.keys() & _WANTED.keys()
        exact = self._sm_active(device, values, taken)
        for name, value in values.items():
            if name not in _WANTED or (exact and _WANTED[name] is Field.SM_ACTIVE):
                continue
            if value is None:
                taken.gap(device, _WANTED[name], "blank")
            elif name in RATIOS:
                field, scale = RATIOS[name]
                taken.add(device, field, min(value * scale, 1.0))
            elif name in INSTANTS:
                field, scale = INSTANTS[name]
                taken.instant(device, field, value * scale)
            elif name in RATES:
                taken.add(device, RATES[name], value * (taken.end_ns - taken.start_ns) / NS_PER_S)
            elif name == ENERGY:
                for since_ns, spent in self._grown(device, name, value, Field.ENERGY_JOULES, taken):
                    taken.add(device, Field.ENERGY_JOULES, spent * JOULES_PER_MILLIJOULE, since_ns)
            else:
                self._xid_error(device, value, taken)

    def _sm_active(self, device: str, values: dict[str, float | None], taken: _Taken) -> bool:
        """From two counters, exact over all the time between two scrapes; whether the exporter has them."""
        elapsed, active = values.get(CYCLES), values.get(ACTIVE_CYCLES)
        if elapsed is None or active is None:
            return False
        before = self._counters.get((device, ACTIVE_CYCLES))
        self._counters[device, ACTIVE_CYCLES] = Counter(taken.end_ns, active)
        for since_ns, cycles in self._grown(device, CYCLES, elapsed, Field.SM_ACTIVE, taken):
            if before is None or active < before.value:
                taken.gap(device, Field.SM_ACTIVE, "reset")
            elif cycles > 0:
                taken.add(device, Field.SM_ACTIVE, min((active - before.value) / cycles, 1.0), since_ns)
        return True

    def _grown(
        self, device: str, name: str, value: float, field: Field, taken: _Taken
    ) -> Iterator[tuple[int, float]]:
        """(since when, by how much) a counter grew; nothing at its first reading and when it began anew."""
        before = self._counters.get((device, name))
        self._counters[device, name] = Counter(taken.end_ns, value)
        if before is None:
            return
        if value < before.value:
            taken.gap(device, field, "reset", before.at_ns)
            return
        yield before.at_ns, value - before.value

    def _xid_error(self, device: str, value: float, taken: _Taken) -> None:
        """DCGM shows the last code for ever: only a change is an error of this interval."""
        before, self._xid[device] = self._xid.get(device), value
        if before is not None and value not in (before, 0.0):
            taken.add(device, Field.XID, value)


class _Taken:
    """Samples and gaps of one scrape."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.samples: list[Sample] = []
        self.gaps: list[Gap] = []

    def add(self, device: str, field: Field, value: float, since_ns: int | None = None) -> None:
        start = self.start_ns if since_ns is None else since_ns
        self.samples.append(Sample(device, None, field, SOURCE, start, self.end_ns - start, value))

    def instant(self, device: str, field: Field, value: float) -> None:
        self.samples.append(Sample(device, None, field, SOURCE, self.end_ns, 0, value))

    def gap(self, device: str, field: Field | None, reason: str, since_ns: int | None = None) -> None:
        start = self.start_ns if since_ns is None else since_ns
        self.gaps.append(Gap(device, field, SOURCE, start, self.end_ns - start, reason))
