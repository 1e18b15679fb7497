"""A published replay: what it computed becomes the ledger, hour by hour.

Of each hour the rows come first, which nobody sees, then all heads in one block, which makes them seen at
once: no query ever finds some nodes of an hour as they were and others as they are. Then the sets go to
gpu.charges, for budgets and for every other reader; the sink writes the same bytes again, which collapse. An
hour that was interrupted is repeated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pyarrow as pa

from gpuledger.bus import Outgoing, Producer, SchemaRegistry, framed
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import HOUR_NS
from gpuledger.replay.announcing import claim
from gpuledger.replay.configurations import REPLAYED
from gpuledger.replay.partition import state_path
from gpuledger.replay.request import Request
from gpuledger.replay.state import State
from gpuledger.sink.batcher import Batch
from gpuledger.sink.periods import ClosedPeriods
from gpuledger.sink.tables import NS_PER_MS, Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse

SETS_AT_A_TIME = 2_000  # some 60 MB decoded
MAX_HEADS = 1_000_000  # ClickHouse makes one block of up to 1,048,576 rows; 2,900 nodes for an hour of 10 s
PUBLISHED = "published"


def publish(
    request: Request,
    partitions: int,
    directory: Path,
    warehouse: Warehouse,
    clock: Clock,
    told: Callable[[int, int], None] = lambda *_: None,
) -> int:
    """Announce, then publish every hour that is not published yet; returns how many hours there are.

    ``told`` hears how many of them are done. Raises Refused, Unavailable, WarehouseError; called again it
    goes on where it was.
    """
    claim(request, clock)
    with ExitStack() as stack:
        periods = ClosedPeriods(request.bus, clock)
        stack.callback(periods.close)
        writer = Writer(warehouse, clock, periods.through)
        states = [State(state_path(directory, p), request.fingerprint) for p in range(partitions)]
        for state in states:
            stack.callback(state.close)
        registry = stack.enter_context(SchemaRegistry(request.bus, clock))
        producer = stack.enter_context(Producer(request.bus, "gpuledger-replay"))
        hours = sorted({hour for state in states for hour in state.hours(HOUR_NS)})
        done: set[int] = states[0].get(PUBLISHED) or set()
        for hour in hours:
            if hour not in done:
                _show(request, states, hour, warehouse, writer, clock)
                _send(states, hour, producer, registry)
                done.add(hour)
                states[0].put(**{PUBLISHED: done})
                writer.store_hours()
            told(len(done), len(hours))
    return len(hours)


def _show(
    request: Request, states: Sequence[State], hour: int, warehouse: Warehouse, writer: Writer, clock: Clock
) -> None:
    received_ms = request.generations[0].announced_ns // NS_PER_MS  # the same whenever it is repeated
    heads: list[pa.Table] = []
    numbered = enumerate(_sets(states, hour))
    while some := list(islice(numbered, SETS_AT_A_TIME)):
        batch = Batch([Arrival(one, CHARGES, one.partition, at, received_ms) for at, one in some])
        writer.write_rows(batch)
        writer.keep_booked(batch.arrivals, clock.unix_ns())
        writer.mark(batch.arrivals)
        heads.append(batch.windows)
    count = sum(table.num_rows for table in heads)
    if count > MAX_HEADS:
        raise Refused(f"an hour of {count} windows does not fit into one block: publish by --cluster")
    table = pa.concat_tables(heads).unify_dictionaries().combine_chunks()
    numbers = "-".join(str(generation.number) for generation in request.generations)
    warehouse.insert_arrow("charge_windows", table, f"heads of generation {numbers} in {hour}")


def _send(states: Sequence[State], hour: int, producer: Producer, registry: SchemaRegistry) -> None:
    found = _sets(states, hour)
    while some := list(islice(found, SETS_AT_A_TIME)):
        producer.produce_all(
            Outgoing(CHARGES, NodeKey(one.cluster, one.node).key, framed(registry, one)) for one in some
        )


def _sets(states: Sequence[State], hour: int) -> Iterator[ChargeSet]:
    for state in states:
        yield from state.sets(REPLAYED, hour, hour + HOUR_NS)
