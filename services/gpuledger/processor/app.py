"""The processor's Faust worker: one stream over gpu.telemetry, handed to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import faust
from faust.types import TP

from gpuledger.bus import BusSettings, Incoming
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.engine import Engine
from gpuledger.processor.rounds import Round
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.shell import faust_app
from gpuledger.serving.watch import Watch


class EngineWork:
    """The engine as the shell knows work: of the one topic that it reads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def supersede(self, assignment: int) -> None:
        """See Work."""
        self._engine.supersede(assignment)

    def assign(self, assignment: int, places: Sequence[TP]) -> None:
        """See Work."""
        self._engine.assign(assignment, [place.partition for place in places])

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Mapping[TP, int]:
        """See Work."""
        return _finished(self._engine.feed(assignment, records))

    def tick(self, assignment: int) -> Mapping[TP, int]:
        """See Work."""
        return _finished(self._engine.tick(assignment))

    def close(self) -> None:
        """See Work."""
        self._engine.close()


def make_app(
    bus: BusSettings, settings: ProcessorSettings, watch: Watch, archive_url: str | None = None
) -> faust.App:
    """The application; run it with ``Worker``. Any error that is not a record's stops it.

    ``archive_url``: where the inputs of a window are that Kafka has no more.
    """

    def make_work() -> EngineWork:
        return EngineWork(Engine(bus, settings, archive_url=archive_url))

    return faust_app(bus, settings, [TELEMETRY], make_work, watch)


def _finished(done: Round) -> dict[TP, int]:
    return {TP(TELEMETRY, partition): offset for partition, offset in done.acknowledge.items()}
