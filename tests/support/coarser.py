"""Records of a simulated node as they wait in a spool, and what becomes of them there."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gpuledger.agent.coarser import SpoolCoarsener
from gpuledger.agent.coarser.waiting import Waiting, whole_windows
from gpuledger.agent.coarser.window import coarser
from gpuledger.agent.queued import headers_of
from gpuledger.agent.spool import Entry, Journal, NodeQueue
from gpuledger.agent.windows import Part
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.records import (
    EventBatch,
    Holdings,
    SampleBatch,
    decode,
    encode,
    record_name,
)
from tests.support.agent import NODE, S
from tests.support.agent_bench import Bench
from tests.support.agent_charged import Told

CLASSES = {"EventBatch": EventBatch, "SampleBatch": SampleBatch, "Holdings": Holdings}
BOUND = 1_000_000
SEGMENT_BYTES = 50_000  # a window of the simulated node has 73,000 raw: one a segment
MEMORY_BYTES = 60_000


@cache
def simulated(seconds: int) -> tuple[Entry, ...]:
    """All that an agent queues of the simulated node in that time."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        bench.run(seconds, tick_ns=S)
        return tuple(all_of(bench.queue))


def all_of(queue: NodeQueue) -> list[Entry]:
    """Everything that waits, delivered by that."""
    found = []
    while (ticket := queue.take(0)) is not None:
        found.append(ticket.entry)
        queue.acknowledge(ticket)
    return found


def entry_of(part: Part) -> Entry:
    """A part as it waits."""
    return Entry(record_name(part), NODE.key, encode(part), headers_of(part))


def told(entries: Sequence[Entry]) -> list[Told]:
    """What these say of windows."""
    return [
        (RecordHeaders.from_kafka(entry.key, entry.headers), decode(CLASSES[entry.record], entry.body))
        for entry in entries
        if entry.record in CLASSES
    ]


def made_coarser(entries: Sequence[Entry], coarseness: int) -> list[Entry]:
    """These with each window that is whole in them one step coarser."""
    found = list(entries)
    for window in whole_windows([Waiting.of(entry, 0, 0) for entry in entries]):
        for one in coarser(window, entries.__getitem__, coarseness):
            if one is not None:
                found[one.number] = one.entry
    return found


def opened(directory: Path, bound: int = BOUND) -> NodeQueue:
    """A queue whose journal has a window a segment, and little in memory."""
    return NodeQueue(Journal(directory, bound, SEGMENT_BYTES), MEMORY_BYTES)


def fill(queue: NodeQueue, entries: Sequence[Entry]) -> None:
    """Queue all of these."""
    for entry in entries:
        assert queue.append(entry)


def work(queue: NodeQueue) -> int:
    """Make coarser what there is to be; in how many steps."""
    coarsener, steps = SpoolCoarsener(queue), 0
    while coarsener.step():
        steps += 1
    return steps


def coarseness_of(entries: Sequence[Entry]) -> dict[int, int]:
    """Of each window with calls, how coarse they are."""
    return {
        headers.window_start_ns: body.header.coarsening
        for headers, body in told(entries)
        if isinstance(body, EventBatch)
    }
