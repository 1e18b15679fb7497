"""One device in one round of NVML: utilisation, memory, power, and what each process did.

Every value says the interval it speaks for. NVML stamps per-process samples with the wall clock in us; they
are moved to agent time by the difference of the two clocks at the reading.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pynvml

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.nvml import Missing, ask
from gpuledger.agent.samplers.gpm import GpmReader
from gpuledger.agent.samplers.hygiene import (
    BLANK,
    MAX_DEVICE_BYTES,
    bytes_of,
    celsius_of,
    hz_of,
    ratio_of_percent,
    watts_of,
)
from gpuledger.agent.samplers.samples import Gap, Round, Sample
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device

SAMPLE_PERIOD_NS = 1_000_000_000  # the driver refreshes its counters every 167 ms to 1 s
MAX_INTERVAL_NS = 2 * SAMPLE_PERIOD_NS  # what a reading may speak for: a longer silence was not averaged
MAX_PROCESS_SAMPLES = 100  # the first call may claim a hundred entries, most of them garbage (nvtop#110)
JOULES_PER_MILLIJOULE = 1e-3
_OF_INSTANCES = frozenset({Field.PROCESS_SM_UTILIZATION, Field.PROCESS_MEMORY_BYTES})
"""On a GPU in MIG mode these are read from its instances, and not a second time from the GPU."""
NS_PER_US = 1000


class DeviceState:
    """What has to be remembered of one device between rounds."""

    def __init__(self, device: Device, handle: Any, since_ns: int) -> None:
        self.uuid = device.uuid
        self.handle = handle
        self.divided = device.sharing == "mig"  # processes are its instances', and so is what they do
        self.memory_bytes = device.memory_total_bytes or MAX_DEVICE_BYTES
        self.since_ns = since_ns  # agent time of the previous round
        self.seen_us = 0  # newest per-process sample, NVML's clock; each device has its own
        self.energy_mj: int | None = None
        self.gpm: GpmReader | None = None
        self.gpm_since_ns = since_ns
        self.silent: set[Field] = set()  # not supported: said once, not every second
        self.lost = False


class DeviceRound:
    """One device in one round."""

    def __init__(self, state: DeviceState, taken: Round, clock: Clock, time: AgentTime) -> None:
        self._state = state
        self._taken = taken
        self._clock = clock
        self._time = time
        self._now_ns = time.now_ns(clock)
        self._ahead_ns = self._now_ns - clock.unix_ns()  # agent time minus wall clock
        self._start_ns = max(state.since_ns, self._now_ns - MAX_INTERVAL_NS)

    def take(self, xid: int | None) -> None:
        """Measure all that there is; ``xid``: the code of an error since the round before."""
        state = self._state
        state.lost = False
        if xid is not None:
            self._add(Field.XID, float(xid))
        for field, measure in (
            (Field.GPU_UTILIZATION, self._utilization),
            (Field.FRAMEBUFFER_USED_BYTES, self._memory),
            (Field.POWER_WATTS, self._power),
            (Field.ENERGY_JOULES, self._energy),
            (Field.TEMPERATURE_CELSIUS, self._temperature),
            (Field.SM_CLOCK_HZ, self._clock_rate),
            (Field.PROCESS_SM_UTILIZATION, self._processes),
            (Field.PROCESS_MEMORY_BYTES, self._contexts),
        ):
            if state.divided and field in _OF_INSTANCES:
                continue
            try:
                measure()
            except Missing as missing:
                self._missing(field, missing.reason)
        if state.gpm is not None:
            self._gpm(state.gpm)
        state.since_ns = self._now_ns

    def _missing(self, field: Field, reason: str, source: SampleSource = SampleSource.NVML) -> None:
        self._state.lost |= reason == "lost"
        if reason == "not_supported":
            if field in self._state.silent:
                return
            self._state.silent.add(field)
        self._taken.gaps.append(
            Gap(self._state.uuid, field, source, self._start_ns, self._now_ns - self._start_ns, reason)
        )

    def _add(
        self,
        field: Field,
        value: float | str,
        *,
        pid: int | None = None,
        start_ns: int | None = None,
        duration_ns: int | None = None,
        source: SampleSource = SampleSource.NVML,
    ) -> None:
        if isinstance(value, str):
            self._missing(field, value, source)
            return
        start = self._start_ns if start_ns is None else start_ns
        length = self._now_ns - start if duration_ns is None else duration_ns
        if length >= 0:
            self._taken.samples.append(
                Sample(self._state.uuid, pid, field, source, start, length, float(value))
            )

    def _instant(self, field: Field, value: float | str, pid: int | None = None) -> None:
        self._add(field, value, pid=pid, start_ns=self._now_ns, duration_ns=0)

    def _utilization(self) -> None:
        rates = ask(pynvml.nvmlDeviceGetUtilizationRates, self._state.handle)
        self._add(Field.GPU_UTILIZATION, ratio_of_percent(rates.gpu))
        self._add(Field.MEMORY_COPY_UTILIZATION, ratio_of_percent(rates.memory))

    def _memory(self) -> None:
        info = ask(pynvml.nvmlDeviceGetMemoryInfo, self._state.handle)
        self._instant(Field.FRAMEBUFFER_USED_BYTES, bytes_of(info.used, self._state.memory_bytes))

    def _power(self) -> None:
        self._instant(Field.POWER_WATTS, watts_of(ask(pynvml.nvmlDeviceGetPowerUsage, self._state.handle)))

    def _temperature(self) -> None:
        value = ask(pynvml.nvmlDeviceGetTemperature, self._state.handle, pynvml.NVML_TEMPERATURE_GPU)
        self._instant(Field.TEMPERATURE_CELSIUS, celsius_of(value))

    def _clock_rate(self) -> None:
        value = ask(pynvml.nvmlDeviceGetClockInfo, self._state.handle, pynvml.NVML_CLOCK_SM)
        self._instant(Field.SM_CLOCK_HZ, hz_of(value))

    def _energy(self) -> None:
        state = self._state
        total = ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, state.handle)
        before, state.energy_mj = state.energy_mj, total
        if before is None:
            return  # a difference needs two readings; this is the first
        if total < before:
            self._missing(Field.ENERGY_JOULES, "reset")  # the counter starts anew when the driver loads
            return
        # the whole difference belongs to the whole time since the previous reading, however long
        self._add(Field.ENERGY_JOULES, (total - before) * JOULES_PER_MILLIJOULE, start_ns=state.since_ns)

    def _processes(self) -> None:
        state = self._state
        try:
            rows = ask(pynvml.nvmlDeviceGetProcessUtilization, state.handle, state.seen_us)
        except Missing as missing:
            if missing.reason in ("not_found", "no_data"):
                return  # nobody was busy
            raise
        newest = state.seen_us
        horizon_us = (self._now_ns - self._ahead_ns) // NS_PER_US + SAMPLE_PERIOD_NS // NS_PER_US
        best: dict[int, Any] = {}
        for row in rows[:MAX_PROCESS_SAMPLES]:
            if not state.seen_us < row.timeStamp <= horizon_us or row.pid == 0:
                continue  # older than asked for, or a stamp of no clock
            known = best.get(row.pid)
            if known is None or row.timeStamp > known.timeStamp:
                best[row.pid] = row
            newest = max(newest, row.timeStamp)
        for pid, row in sorted(best.items()):
            end_ns = row.timeStamp * NS_PER_US + self._ahead_ns
            start_ns = max(state.seen_us * NS_PER_US + self._ahead_ns, end_ns - MAX_INTERVAL_NS)
            self._add(
                Field.PROCESS_SM_UTILIZATION,
                ratio_of_percent(row.smUtil),
                pid=pid,
                start_ns=start_ns,
                duration_ns=end_ns - start_ns,
            )
        state.seen_us = newest

    def _contexts(self) -> None:
        found: dict[int, int | None] = {}
        processes = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, self._state.handle)
        with contextlib.suppress(Missing):  # under MPS the driver lists the server, and its clients only here
            processes += ask(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, self._state.handle)
        for process in processes:
            size = bytes_of(process.usedGpuMemory, self._state.memory_bytes)
            found[int(process.pid)] = None if isinstance(size, str) else size
            if size != BLANK:
                self._instant(Field.PROCESS_MEMORY_BYTES, size, pid=int(process.pid))
        self._taken.contexts[self._state.uuid] = found

    def _gpm(self, gpm: GpmReader) -> None:
        now_ns = self._time.now_ns(self._clock)
        start_ns, self._state.gpm_since_ns = self._state.gpm_since_ns, now_ns
        try:
            metrics = gpm.read((now_ns - start_ns) / NS_PER_S)
        except Missing as missing:
            self._missing(Field.ENGINE_ACTIVE, missing.reason, SampleSource.GPM)
            return
        for field, value in metrics.items():
            self._add(field, value, start_ns=start_ns, duration_ns=now_ns - start_ns, source=SampleSource.GPM)
