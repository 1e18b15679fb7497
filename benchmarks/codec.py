"""The Avro codec on event batches, against fastavro's compiled schemaless reader and writer.

    python -m benchmarks.codec

Seconds of one core (not of the wall clock), on the contract's own EventBatch with 12 processes, 8 devices
and 17 columns of which 12 hold an event
each. fastavro gets what its interface takes (lists; times already as differences) and gives lists; this
codec takes and gives numpy columns, computes the differences, and checks every rule of the schema. A second
baseline adds the conversion between lists and columns, which a user of fastavro would have to do as well.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import fastavro
import numpy as np

from benchmarks.figures import Runs, repeat, write_figure
from gpuledger.contract.avro import Codec
from gpuledger.contract.schemas import schema

EVENTS = (2_000, 5_000)  # what a part of a busy node's window holds
FIGURE_EVENTS = 2_000  # the smaller record is the harder one: fixed costs weigh more
RECORDS = 24  # different records a run, so that no run lives off one record in the cache
RUNS = 15
BASELINE_RUNS = 5  # a run of the baseline takes some twenty times as long


def event_batch(events: int, seed: int) -> dict[str, Any]:
    """An EventBatch as training and inference processes make it: mostly launches, some copies."""
    rng = np.random.default_rng(seed)
    start_ns = 1_760_000_000_000_000_000
    copies = rng.random(events) < 0.1
    return {
        "header": {
            "cluster": "north",
            "node": f"node-{seed}",
            "boot_id": "8c7d5b0e-5f3e-4b8e-9d57-6f0f4a0b9a11",
            "epoch_ns": 86_400_000_000_000,
            "sequence": 41,
            "window_start_ns": start_ns,
            "window_length_ns": 10_000_000_000,
        },
        "processes": [
            {"pid": 4000 + i, "consumer_kind": "pod", "consumer": f"pod-{i}", "name": "python"}
            for i in range(12)
        ],
        "devices": [f"GPU-{i:08d}-0000-0000-0000-000000000000" for i in range(8)],
        "threads": np.arange(40) + 4000,
        "functions": rng.integers(1 << 46, 1 << 47, 50),
        "time_ns": start_ns + np.cumsum(rng.integers(100, 20_000, events)),
        "process": rng.integers(0, 12, events),
        "thread": rng.integers(-1, 40, events),
        "device": rng.integers(-1, 8, events),
        "operation": rng.integers(0, 30, events),
        "duration_ns": rng.integers(500, 100_000, events),
        "bytes": np.where(copies, rng.integers(1 << 12, 1 << 27, events), 0),
        "launched_threads": np.where(copies, 0, rng.integers(1 << 13, 1 << 20, events)),
        "function": np.where(copies, -1, rng.integers(0, 50, events)),
        "result": np.zeros(events, np.int64),
        "count": np.ones(events, np.int64),
        "span_ns": np.zeros(events, np.int64),
    }


def as_lists(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as fastavro takes it."""
    raw = {**batch, "time_ns": np.diff(batch["time_ns"], prepend=0)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in raw.items()}


def as_columns(raw: dict[str, Any]) -> dict[str, Any]:
    """What fastavro gave, with its long lists as columns."""
    batch = {
        name: np.array(value, np.int64)
        if isinstance(value, list) and name not in ("processes", "devices")
        else value
        for name, value in raw.items()
    }
    batch["time_ns"] = np.cumsum(batch["time_ns"])
    return batch


def one_after_the_other(work: Callable[[Any], object], records: list[Any]) -> None:
    """Each record is done with before the next one comes, as in a stream."""
    for record in records:
        work(record)


def measure(events: int) -> dict[str, Runs]:
    """Events a second of each contender, on the same records."""
    document = schema("EventBatch")
    parsed = fastavro.parse_schema(dict(document))
    codec = Codec(document)
    batches = [event_batch(events, seed) for seed in range(RECORDS)]
    lists = [as_lists(batch) for batch in batches]
    bodies = [codec.encode(batch) for batch in batches]

    def write(raw: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, raw)
        return out.getvalue()

    def read(body: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(body), parsed, None)

    for raw, body in zip(lists, bodies, strict=True):
        assert codec.decode(write(raw))["time_ns"].tolist() == as_columns(read(body))["time_ns"].tolist()
    contenders: dict[str, tuple[Callable[[Any], object], list[Any], int]] = {
        "encode": (codec.encode, batches, RUNS),
        "decode": (codec.decode, bodies, RUNS),
        "fastavro_encode": (write, lists, BASELINE_RUNS),
        "fastavro_decode": (read, bodies, BASELINE_RUNS),
        "fastavro_encode_columns": (lambda batch: write(as_lists(batch)), batches, BASELINE_RUNS),
        "fastavro_decode_columns": (lambda body: as_columns(read(body)), bodies, BASELINE_RUNS),
    }
    rates = {
        name: repeat(partial(one_after_the_other, work, records), runs, clock=time.process_time).rate(
            events * RECORDS
        )
        for name, (work, records, runs) in contenders.items()
    }
    rates["bytes_per_event"] = Runs((sum(map(len, bodies)) / (events * RECORDS),))
    return rates


def main() -> None:
    measured = {events: measure(events) for events in EVENTS}
    rates = measured[FIGURE_EVENTS]
    for what in ("encode", "decode"):
        ours, baseline = rates[what], rates[f"fastavro_{what}"]
        write_figure(
            f"codec_{what}",
            ours.median,
            "events/s",
            baseline.median,
            ours.median / baseline.median,
            ours.n,
            median=ours.median,
            spread=ours.spread,
            baseline_name=f"fastavro {fastavro.__version__} schemaless, lists",
            baseline_spread=baseline.spread,
            baseline_n=baseline.n,
            ratio_with_columns=ours.median / rates[f"fastavro_{what}_columns"].median,
            events_per_record=FIGURE_EVENTS,
            bytes_per_event=rates["bytes_per_event"].median,
            by_events_per_record={
                str(events): {
                    "value": other[what].median,
                    "spread": other[what].spread,
                    "ratio": other[what].median / other[f"fastavro_{what}"].median,
                }
                for events, other in measured.items()
            },
        )


if __name__ == "__main__":
    main()
