"""From settings to a running agent: which source, which sampler, which holders; opened here, closed here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.coarser import CoarsenerThread, SpoolCoarsener
from gpuledger.agent.epoch import AgentTime, boot_id
from gpuledger.agent.holders.choose import HolderChoice, HoldersFrom, open_holders
from gpuledger.agent.holders.source import HolderSource
from gpuledger.agent.probes.event_source import EventSource
from gpuledger.agent.probes.loader import LoaderKind
from gpuledger.agent.probes.places import NODE_ROOT
from gpuledger.agent.probes.source import DEFAULT_TALLY_CALLS_PER_S, ProbeSource
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.process_reader import ProcessReader
from gpuledger.agent.publisher import Publisher
from gpuledger.agent.samplers import Sampler
from gpuledger.agent.samplers.combined import CombinedSampler
from gpuledger.agent.samplers.dcgm_exporter import DEFAULT_PERIOD_S, DcgmExporterSampler
from gpuledger.agent.samplers.patient import PatientNvml
from gpuledger.agent.sampling import SamplerThread
from gpuledger.agent.service import Agent
from gpuledger.agent.settings import AgentSettings
from gpuledger.agent.spool import Journal, NodeLock, NodeQueue, node_lock
from gpuledger.bus import BusAccess
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device

SPOOL_DIRECTORY = "spool"


class SourceKind(StrEnum):
    """Where CUDA calls come from."""

    EBPF = "ebpf"
    TETRAGON = "tetragon"
    """Tetragon's JSON export (`Sources.export`)."""
    SIMULATED = "simulated"
    NONE = "none"


class SamplerKind(StrEnum):
    """Where measurements come from; a simulated source has its own."""

    NVML = "nvml"
    NONE = "none"


@dataclass(frozen=True)
class Sources:
    """What an agent is made of. ``seed`` is the simulated node's."""

    kind: SourceKind = SourceKind.EBPF
    samplers: SamplerKind = SamplerKind.NVML
    holders: HolderChoice = field(default_factory=HolderChoice)
    preattach: tuple[Path, ...] = ()
    seed: int = 1
    loader: LoaderKind = LoaderKind.AUTO
    tally_calls_per_s: int = DEFAULT_TALLY_CALLS_PER_S
    dcgm_url: str | None = None
    dcgm_period_ns: int = DEFAULT_PERIOD_S * NS_PER_S
    export: Path | None = None
    runtime: bool = False
    """Whether calls of the CUDA runtime are counted by name."""


def parse_source(text: str) -> tuple[SourceKind, Path | None]:
    """What ``--source`` says: a kind, of tetragon with its file. Raises ConfigError."""
    name, colon, path = text.partition(":")
    if name not in list(SourceKind) or (name == SourceKind.TETRAGON) != bool(path) or (colon and not path):
        raise ConfigError(f"{text!r} is none of ebpf, tetragon:FILE, simulated, none", "--source")
    return SourceKind(name), Path(path) if path else None


@contextlib.contextmanager
def running(
    settings: AgentSettings, sources: Sources, bus: BusAccess, clock: Clock
) -> Iterator[tuple[Agent, Publisher]]:
    """An agent ready for `run`, with its publisher sending; all is let go of at the end.

    What Kafka has not got within ``settings.flush_s`` of the end waits in the spool for the next life.
    Raises Refused where another agent of the node runs, Unsupported where a source is not possible.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_lock(settings, bus))
        queue = NodeQueue(Journal(settings.state_directory / SPOOL_DIRECTORY, settings.spool_bytes))
        stack.callback(queue.close)
        agent = _agent(stack, settings, sources, clock, queue)
        coarsener = CoarsenerThread(SpoolCoarsener(queue))
        coarsener.start()
        stack.callback(coarsener.stop)
        publisher = Publisher(bus, queue, f"gpuledger-agent-{settings.node.node}")
        publisher.start()
        stack.callback(publisher.stop)
        yield agent, publisher
        publisher.drain(settings.flush_s, clock.sleep)


def _lock(settings: AgentSettings, bus: BusAccess) -> NodeLock:
    if settings.lock_directory is None:
        return NodeLock(settings.state_directory)
    node = node_lock(settings.lock_directory, boot_id(), settings.node, bus.kafka_bootstrap)
    return NodeLock(settings.state_directory, node)


def _agent(
    stack: contextlib.ExitStack,
    settings: AgentSettings,
    sources: Sources,
    clock: Clock,
    queue: NodeQueue,
) -> Agent:
    holders = open_holders(stack, sources.holders, settings.node.node, clock)
    if sources.kind is SourceKind.SIMULATED:
        return _simulated(settings, sources, clock, queue, holders)
    probes = _probes(sources)
    reader: ProcessReader = ProcReader(CgroupPaths(gone=probes.gone_cgroups))
    nvml = PatientNvml() if sources.samplers is SamplerKind.NVML else None
    if nvml is not None:
        stack.callback(nvml.close)
    source: EventSource | None = None
    if sources.export is not None:
        source, reader = _tetragon(stack, sources.export, reader, clock)
    if sources.kind is SourceKind.EBPF:
        source = probes
        stack.callback(source.close)
        source.start()
        for path in sources.preattach:
            source.preattach(path)
        source.refresh()
    if nvml is not None:
        nvml.wait()
    # only now, with the probes in place: a window that begins with the epoch was seen whole
    time = AgentTime.begin(clock, boot_id())
    if nvml is not None:
        settings = replace(settings, layout=replace(settings.layout, devices=nvml.open(clock, time)))
    measuring = _sampler(sources, nvml, settings.layout.devices, clock, time)
    thread = SamplerThread(measuring, clock, time) if measuring else None
    return Agent(settings, clock, time, queue, source, reader, thread, holders)


def _probes(sources: Sources) -> ProbeSource:
    loader, rate = sources.loader, sources.tally_calls_per_s
    if not sources.runtime:
        return ProbeSource(loader=loader, tally_calls_per_s=rate, node_root=NODE_ROOT)
    from gpuledger.agent.probes.cudart_source import RuntimeSource  # which few agents need

    return RuntimeSource(loader=loader, tally_calls_per_s=rate, node_root=NODE_ROOT)


def _tetragon(
    stack: contextlib.ExitStack, export: Path, reader: ProcessReader, clock: Clock
) -> tuple[EventSource, ProcessReader]:
    from gpuledger.agent import tetragon  # which a node with probes of its own need not carry

    knowing = tetragon.TetragonReader(reader)
    source = tetragon.TetragonSource(export, knowing, clock)
    stack.callback(source.close)
    source.start()
    return source, knowing


def _simulated(
    settings: AgentSettings, sources: Sources, clock: Clock, queue: NodeQueue, holders: HolderSource
) -> Agent:
    from gpuledger.agent import simulated  # which a real node need not carry

    node = simulated.SimulatedNode(sources.seed)
    if sources.holders.source is HoldersFrom.NONE:
        holders = simulated.SimulatedHolders(node)
    settings = replace(settings, layout=replace(settings.layout, devices=node.devices))
    time = AgentTime.begin(clock, boot_id())
    sampler = SamplerThread(simulated.SimulatedSampler(node, clock, time), clock, time)
    source = simulated.SimulatedSource(node, clock)
    return Agent(settings, clock, time, queue, source, simulated.SimulatedProcesses(node), sampler, holders)


def _sampler(
    sources: Sources, nvml: PatientNvml | None, devices: list[Device], clock: Clock, time: AgentTime
) -> Sampler | None:
    """NVML each second; an exporter, where there is one, for what NVML does not measure."""
    if sources.dcgm_url is None:
        return nvml
    if nvml is None:
        raise ConfigError("--dcgm-url needs NVML to know the devices: --samplers nvml", "options")
    exporter = DcgmExporterSampler(sources.dcgm_url, devices, clock, time, sources.dcgm_period_ns)
    return CombinedSampler(nvml, exporter)
