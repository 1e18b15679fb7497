"""What was charged, as gpu.charges holds it: read into the state file beside what a replay computed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gpuledger.bus import PartitionReader
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.records import ChargeSet, decode
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.wire import unframe
from gpuledger.replay.beginning import check_kept
from gpuledger.replay.partition import state_path
from gpuledger.replay.request import Request
from gpuledger.replay.state import State, Stored

RECORDED = "recorded"
AT_A_TIME = 1_000


def read_recorded(request: Request, partition: int, directory: Path) -> None:
    """Read the sets of the range, of each window the greatest revision. gpu.charges has the partitions of
    gpu.telemetry. Raises Unavailable, and Refused where gpu.charges has not all of the range any more."""
    state = State(state_path(directory, partition), request.fingerprint)
    try:
        with PartitionReader(request.bus, "gpuledger-replay") as reader:
            found = _sets(reader, request, partition)
            while some := list(islice(found, AT_A_TIME)):
                state.record(some)
    finally:
        state.close()


def _sets(reader: PartitionReader, request: Request, partition: int) -> Iterator[Stored]:
    first = reader.offset_at(CHARGES, partition, request.from_ns)
    low, end = reader.bounds(CHARGES, partition)
    if first == low > 0 and low < end:
        otherwise = "compare with --against warehouse, or a later time"
        check_kept(reader, CHARGES, partition, request.from_ns, otherwise)
    for message in reader.read_to_end(CHARGES, partition, first):
        try:
            body = bytes(unframe(message.value or b"")[1])
            charges = decode(ChargeSet, body)
        except BadRecord:
            continue  # the sink has told it
        in_range = request.from_ns <= charges.window_start_ns < request.to_ns
        if in_range and request.wants(charges.cluster) and charges.cluster != NO_NODE.cluster:
            yield Stored(RECORDED, charges, body)
