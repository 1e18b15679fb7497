"""Tetragon (cilium/tetragon) as the source of CUDA calls, for clusters that already run it.

`tracing_policies` is what Tetragon has to be told, `TetragonSource` reads what it exports. It sees the entry
of a call and no more: no result, no duration, no address that a call returns. `MISSING` says what lacks.
"""

from gpuledger.agent.tetragon.lines import POLICY_PREFIX
from gpuledger.agent.tetragon.policy import DEFAULT_LIBRARY, tracing_policies
from gpuledger.agent.tetragon.processes import TetragonReader
from gpuledger.agent.tetragon.source import DELAY_NS, MISSING, TetragonSource

__all__ = [
    "DEFAULT_LIBRARY",
    "DELAY_NS",
    "MISSING",
    "POLICY_PREFIX",
    "TetragonReader",
    "TetragonSource",
    "tracing_policies",
]
