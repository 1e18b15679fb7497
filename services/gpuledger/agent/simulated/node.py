"""Three devices and five processes whose every second is the same, so that the truth has a closed form.

| device | held by | processes | busy |
|---|---|---|---|
| 0 | one pod, exclusively | a trainer: ten steps a second of 70 ms | 70 % |
| 1 | three pods, time-sliced | heavy: always at work; bursty: 200 ms of work a second; warm: none | 100 % |
| 2 | nobody | a host process: four steps a second of 50 ms | 20 % |

On device 1 both work at once for the first 400 ms of a second, each at half speed; then heavy has it alone.
So heavy makes 5 steps of 80 ms and 15 of 40 ms, and its true share is 80 %, bursty's 20 %.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice, Holders
from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, Pod

SECOND_NS = 1_000_000_000
_MS = 1_000_000
CALL_NS = 8_000  # how long a call that does not wait takes
LAUNCH_GAP_NS = 20_000  # between two launches of one step
FIRST_PID = 5_000_001  # above Linux's largest pid_max (4,194,304): never a real process's
FIRST_CGROUP = 9_000_000_001
THREADS_A_LAUNCH = 128 * 256
MEMORY_BYTES = 80 << 30


@dataclass(frozen=True)
class Step:
    """Launches at ``start_ns`` of the second, done (and synchronised) ``length_ns`` later."""

    start_ns: int
    length_ns: int
    speed: float
    """Part of the device that the process has meanwhile."""
    launches: int


@dataclass(frozen=True)
class Actor:
    """A process, what it does each second, and what it holds."""

    pid: int
    name: str
    device: int
    resident_bytes: int
    steps: tuple[Step, ...]
    cgroup_id: int
    cgroup_path: str
    pod: Pod | None
    function: int

    def busy_ns(self, start_ns: int, end_ns: int) -> float:
        """True busy time on its device in [start, end) of the boot clock."""
        whole = sum(step.length_ns * step.speed for step in self.steps)
        seconds, rest = divmod(end_ns, SECOND_NS)
        before, skipped = divmod(start_ns, SECOND_NS)
        return (seconds - before) * whole + self._within(rest) - self._within(skipped)

    def _within(self, offset_ns: int) -> float:
        return sum(min(max(offset_ns - step.start_ns, 0), step.length_ns) * step.speed for step in self.steps)


class SimulatedNode:
    """The node, its actors and the truth. ``seed`` chooses uuids and handles, not behaviour."""

    def __init__(self, seed: int = 1) -> None:
        self.devices = [
            Device(
                uuid=f"GPU-{_uuid(seed, 'device', index)}",
                index=index,
                minor=2 - index,  # nodes need not be numbered as NVML counts
                model="Simulated GPU 80GB",
                memory_total_bytes=MEMORY_BYTES,
                sm_count=108,
            )
            for index in range(3)
        ]
        trainer = _steps(10, 100 * _MS, 70 * _MS, 1.0, 12)
        shared = [Step(i * 80 * _MS, 80 * _MS, 0.5, 10) for i in range(5)]
        alone = [Step((400 + i * 40) * _MS, 40 * _MS, 1.0, 10) for i in range(15)]
        burst = (Step(0, 400 * _MS, 0.5, 40),)
        host = _steps(4, 250 * _MS, 50 * _MS, 1.0, 5)
        actors = [
            ("trainer", 0, 60 << 30, trainer, ("vision", "train-0", "vision")),
            ("heavy", 1, 20 << 30, tuple(shared + alone), ("nlp", "heavy-0", "nlp")),
            ("bursty", 1, 10 << 30, burst, ("serving", "bursty-0", "vision")),
            ("warm", 1, 30 << 30, (), ("serving", "warm-0", "nlp")),
            ("miner", 2, 4 << 30, host, None),
        ]
        self.actors = [_actor(seed, number, *row) for number, row in enumerate(actors)]
        self._template = np.concatenate([_second(actor) for actor in self.actors])
        self._template = self._template[np.argsort(self._template["time_ns"], kind="stable")]

    def holders(self) -> Holders:
        """Who holds what, as the cluster would say."""
        held = []
        for actor in self.actors:
            if actor.pod is not None:
                ref = DeviceRef(uuid=self.devices[actor.device].uuid)
                resource = "nvidia.com/gpu" if actor.device == 0 else "nvidia.com/gpu.shared"
                held.append(HeldDevice(actor.pod.uid, ref, "main", resource))
        return Holders(
            pods=tuple(actor.pod for actor in self.actors if actor.pod is not None),
            held=tuple(held),
            sharing=(DeviceSharing(DeviceRef(uuid=self.devices[1].uuid), "time_slicing", 3),),
        )

    def beginnings(self, boot_ns: int) -> RawEvents:
        """What the processes do at their start: a context and memory, then only steps."""
        rows = np.zeros(2 * len(self.actors), RAW_EVENT)
        for number, actor in enumerate(self.actors):
            for at, operation, size in (
                (2 * number, Operation.CREATE_CONTEXT, 0),
                (2 * number + 1, Operation.ALLOCATE_DEVICE, actor.resident_bytes),
            ):
                _fill(rows[at : at + 1], actor)
                rows["operation"][at] = operation
                rows["bytes"][at] = size
        rows["time_ns"] = boot_ns + np.arange(len(rows))
        rows["duration_ns"] = CALL_NS
        return rows

    def events(self, start_ns: int, end_ns: int) -> RawEvents:
        """Calls that return in [start, end) of the boot clock."""
        seconds = np.arange(start_ns // SECOND_NS, -(-end_ns // SECOND_NS), dtype=np.uint64)
        rows = np.tile(self._template, len(seconds))
        rows["time_ns"] += np.repeat(seconds * np.uint64(SECOND_NS), len(self._template))
        return rows[(rows["time_ns"] >= start_ns) & (rows["time_ns"] < end_ns)]

    def any_busy_ns(self, device: int, start_ns: int, end_ns: int) -> float:
        """True time in [start, end) in which the device had something to do."""
        busy = sum(a.busy_ns(start_ns, end_ns) for a in self.actors if a.device == device)
        return min(busy, float(end_ns - start_ns))


def _steps(number: int, period_ns: int, length_ns: int, speed: float, launches: int) -> tuple[Step, ...]:
    return tuple(Step(i * period_ns, length_ns, speed, launches) for i in range(number))


def _actor(
    seed: int,
    number: int,
    name: str,
    device: int,
    resident_bytes: int,
    steps: tuple[Step, ...],
    pod: tuple[str, str, str] | None,
) -> Actor:
    path = "/init.scope"  # nobody's: a process of its own
    record = None
    if pod is not None:
        namespace, pod_name, team = pod
        uid = str(_uuid(seed, "pod", number))
        container = _uuid(seed, "container", number).hex * 2
        record = Pod(
            uid, namespace, pod_name, "Running", {"team": team}, workload_kind="Job", workload=pod_name[:-2]
        )
        slice_ = "kubepods-pod" + uid.replace("-", "_")
        path = f"/kubepods.slice/{slice_}.slice/cri-containerd-{container}.scope"
    return Actor(
        pid=FIRST_PID + number,
        name=name,
        device=device,
        resident_bytes=resident_bytes,
        steps=steps,
        cgroup_id=FIRST_CGROUP + number,
        cgroup_path=path,
        pod=record,
        function=0x7F00_0000_0000 + seed * 0x10000 + number * 0x100,
    )


def _second(actor: Actor) -> RawEvents:
    """The calls of one second, times relative to its start; a step's last call waits for its end."""
    parts = []
    for step in actor.steps:
        rows = np.zeros(step.launches + 1, RAW_EVENT)
        _fill(rows, actor)
        launched = step.start_ns + CALL_NS + LAUNCH_GAP_NS * np.arange(step.launches)
        rows["operation"] = Operation.LAUNCH_KERNEL
        rows["time_ns"][:-1] = launched
        rows["duration_ns"] = CALL_NS
        rows["launched_threads"] = THREADS_A_LAUNCH
        rows["function"] = actor.function
        # a nanosecond before the step's end, so that the next step begins after it
        end = step.start_ns + step.length_ns - 1
        waited = end - int(launched[-1])
        rows[-1:][["time_ns", "duration_ns", "operation"]] = (end, waited, Operation.SYNCHRONIZE_STREAM)
        rows[-1:][["launched_threads", "function"]] = (0, 0)
        parts.append(rows)
    return np.concatenate(parts) if parts else np.empty(0, RAW_EVENT)


def _fill(rows: RawEvents, actor: Actor) -> None:
    rows["pid"] = rows["tid"] = actor.pid
    rows["cgroup_id"] = actor.cgroup_id
    rows["count"] = 1
    rows["ordinal"] = actor.device


def _uuid(seed: int, kind: str, number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"gpuledger simulated {seed} {kind} {number}")
