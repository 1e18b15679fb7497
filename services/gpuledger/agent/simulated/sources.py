"""The simulated node behind the interfaces of the real sources."""

from __future__ import annotations

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.holders.source import Holders
from gpuledger.agent.probes.events import Losses, RawEvents, Resident
from gpuledger.agent.probes.unprobed import Unprobed
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.rules import EVENT_GRACE_NS
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.agent.simulated.node import Actor, SimulatedNode
from gpuledger.contract.clock import Clock
from gpuledger.contract.fields import Field, SampleSource

TICK_NS = 10_000_000
SM_ACTIVE_OF_BUSY = 0.8  # a busy device has some multiprocessors idle


class SimulatedSource(Unprobed):
    """An `EventSource`."""

    def __init__(self, node: SimulatedNode, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._through_ns: int | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """See EventSource.missing; nothing is."""
        return ()

    @property
    def delay_ns(self) -> int:
        """See EventSource.delay_ns."""
        return EVENT_GRACE_NS

    def start(self) -> None:
        """See EventSource.start."""

    def drain(self) -> RawEvents:
        """See EventSource.drain. The first call gives the beginnings of all processes."""
        now = self._clock.boot_ns()
        start, self._through_ns = self._through_ns, now
        return self._node.beginnings(now) if start is None else self._node.events(start, now)

    def losses(self) -> Losses:
        """See EventSource.losses; nothing is ever lost."""
        return Losses()

    def resident(self) -> list[Resident]:
        """See EventSource.resident."""
        return [Resident(a.pid, 0, a.device, a.resident_bytes) for a in self._node.actors]

    def close(self) -> None:
        """See EventSource.close."""


class SimulatedProcesses:
    """A `ProcessReader`: the actors live for ever, from the boot on."""

    tick_ns = TICK_NS

    def __init__(self, node: SimulatedNode) -> None:
        self._actors: dict[int, Actor] = {actor.pid: actor for actor in node.actors}
        self._paths = {actor.cgroup_id: actor.cgroup_path for actor in node.actors}

    def look(self, pid: int) -> ProcessFacts | None:
        """See ProcessReader.look."""
        actor = self._actors.get(pid)
        return None if actor is None else ProcessFacts(TICK_NS, actor.cgroup_id, actor.name)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        """See ProcessReader.cgroup_path."""
        return self._paths.get(cgroup_id)

    def watch(self, pid: int) -> None:
        """See ProcessReader.watch."""

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        """See ProcessReader.libraries; the actors are traced without one."""
        return frozenset()

    def ended(self) -> list[int]:
        """See ProcessReader.ended."""
        return []

    def close(self) -> None:
        """See ProcessReader.close."""


class SimulatedHolders:
    """A `HolderSource` that always answers the same."""

    problem = ""

    def __init__(self, node: SimulatedNode) -> None:
        self._holders = node.holders()

    def read(self) -> Holders | None:
        """See HolderSource.read."""
        return self._holders


class SimulatedSampler:
    """A `Sampler` that measures the truth."""

    def __init__(self, node: SimulatedNode, clock: Clock, time: AgentTime) -> None:
        self._node = node
        self._clock = clock
        self._time = time
        self._since_ns = clock.boot_ns()

    def sample(self) -> Round:
        """See Sampler.sample."""
        start, end = self._since_ns, self._clock.boot_ns()
        self._since_ns = end
        taken = Round(through_ns=self._time.unix_ns(end))
        for position, device in enumerate(self._node.devices):
            actors = [actor for actor in self._node.actors if actor.device == position]
            if end > start:
                self._ratios(taken, device.uuid, position, actors, start, end)
            used = sum(actor.resident_bytes for actor in actors)
            self._add(taken, device.uuid, None, Field.FRAMEBUFFER_USED_BYTES, end, end, used)
            for actor in actors:
                self._add(
                    taken, device.uuid, actor.pid, Field.PROCESS_MEMORY_BYTES, end, end, actor.resident_bytes
                )
            taken.contexts[device.uuid] = {actor.pid: actor.resident_bytes for actor in actors}
        return taken

    def rebase(self, time: AgentTime) -> None:
        """See Sampler.rebase."""
        self._time = time

    def close(self) -> None:
        """See Sampler.close."""

    def _ratios(
        self, taken: Round, uuid: str, position: int, actors: list[Actor], start: int, end: int
    ) -> None:
        busy = self._node.any_busy_ns(position, start, end) / (end - start)
        for field, value in (
            (Field.GPU_UTILIZATION, busy),
            (Field.ENGINE_ACTIVE, busy),
            (Field.SM_ACTIVE, busy * SM_ACTIVE_OF_BUSY),
        ):
            self._add(taken, uuid, None, field, start, end, value)
        for actor in actors:
            share = actor.busy_ns(start, end) / (end - start)
            if share:
                self._add(taken, uuid, actor.pid, Field.PROCESS_SM_UTILIZATION, start, end, share)

    def _add(
        self, taken: Round, uuid: str, pid: int | None, field: Field, start: int, end: int, value: float
    ) -> None:
        taken.samples.append(
            Sample(
                uuid, pid, field, SampleSource.SIMULATED, self._time.unix_ns(start), end - start, float(value)
            )
        )
