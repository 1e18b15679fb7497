"""From gpu.telemetry to gpu.charges: a thin Faust shell around the protocol and the charging core.

``protocol`` decides what happens to each window (pure); ``Engine`` carries its decisions out on Kafka;
``run`` is the Faust worker that hands records to the engine and commits what it may.
"""

from gpuledger.processor.engine import Engine
from gpuledger.processor.rounds import Round
from gpuledger.processor.settings import ProcessorSettings

__all__ = ["Engine", "ProcessorSettings", "Round"]
