"""What a processor worker does with records, without Kafka: place, gather, charge, encode, finish."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks._history import IDS, PRICES
from gpuledger.bus import Incoming
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.schemas import schema
from gpuledger.contract.windows import DEFAULT_WINDOW_NS, WindowGrid
from gpuledger.pricing import Prices, Teams
from gpuledger.processor.charging import Configuration, charge
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.protocol import Gather, PartitionOwner, Progress, Publish, work
from gpuledger.processor.reading import Decoder, log_record, placed_headers
from gpuledger.processor.window_inputs import WindowInputs

GRID = WindowGrid(DEFAULT_WINDOW_NS)
NAMES = {number: name for name, number in IDS.items()}


class _Schemas:
    def schema(self, schema_id: int) -> dict[str, object]:
        return dict(schema(NAMES[schema_id]))


class _NothingAgain(WindowInputs):
    def read(self, partition: int, windows: object) -> Sequence[Incoming]:  # type: ignore[override]
        return ()


class Line:
    """One partition's owner and all that it calls."""

    def __init__(self) -> None:
        self.windows = 0
        self.charged_bytes = 0
        self.spent_s = 0.0  # of a core
        self._gatherer = Gatherer(_NothingAgain(), Decoder(_Schemas()))
        self._configuration = Configuration(Prices([PRICES]), Teams(), {})
        self._owner = PartitionOwner(0, 0, _grid)
        self._held: dict[int, tuple[Incoming, RecordHeaders]] = {}

    def feed(self, messages: Sequence[Incoming]) -> None:
        """The next records, and all that they make due."""
        began = time.process_time()
        for message in messages:
            headers = placed_headers(message, 1, _grid)
            self._owner.read(log_record(message, headers))
            self._held[message.offset] = message, headers
        while self._round():
            pass
        self.spent_s += time.process_time() - began

    def _round(self) -> int:
        effects, answer, gathered = work([self._owner]), None, Gathered()
        while True:
            try:
                effect = effects.send(answer)
            except StopIteration as end:
                return int(end.value)
            answer = None
            match effect:
                case Gather(tasks):
                    gathered = self._gatherer.gather(tasks, {0: self._held})
                    answer = gathered.unions
                case Publish(batches):
                    decisions = [(at, one) for at, batch in batches for one in batch.decisions]
                    done = charge(decisions, gathered.bodies, _length, self._configuration)
                    self.windows += len(done)
                    self.charged_bytes += sum(len(one.body) for one in done)
                case Progress(_, batch):
                    for offset in batch.finished:
                        self._held.pop(offset, None)


def _grid(cluster: str) -> WindowGrid:
    return GRID


def _length(cluster: str) -> int:
    return GRID.length_ns
