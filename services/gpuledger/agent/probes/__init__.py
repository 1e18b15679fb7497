"""The kernel side of the node agent: what processes ask of the CUDA driver, seen by eBPF.

`ProbeSource` attaches to every libcuda that processes have mapped and hands over arrays of `RAW_EVENT`.
"""

from gpuledger.agent.probes.able import available
from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.event_source import EventSource
from gpuledger.agent.probes.events import RAW_EVENT, UNKNOWN_ORDINAL, Losses, RawEvents, Resident
from gpuledger.agent.probes.loader import LoaderKind
from gpuledger.agent.probes.source import ProbeSource
from gpuledger.agent.probes.symbols import Limits

__all__ = [
    "RAW_EVENT",
    "UNKNOWN_ORDINAL",
    "EventSource",
    "LibraryReport",
    "Limits",
    "LoaderKind",
    "Losses",
    "ProbeSource",
    "RawEvents",
    "Resident",
    "available",
]
