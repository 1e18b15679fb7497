"""The ledger that follows from what lies in Kafka, computed without the processor's code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.bus import BusSettings
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records import ChargeSet, EventBatch, Holdings, NodeLayout, SampleBatch, decode
from gpuledger.contract.revision import Revision
from gpuledger.contract.wire import unframe
from gpuledger.pricing import Prices, Teams
from tests.support.fleet import KINDS, PRICES, WINDOW_NS, Telemetry, read_all


class Seen(NamedTuple):
    """A record of the log; no body where it can not be read."""

    offset: int
    body: Telemetry | None
    headers: RecordHeaders


def expected(
    bus: BusSettings, lives: Mapping[NodeKey, tuple[int, int]]
) -> dict[tuple[NodeKey, int], ChargeSet]:
    """The ledger that follows from gpu.telemetry as it is, for nodes whose lives [launched, ended) are given.

    Computed window by window, from every record of the topic, without the processor's code.
    """
    seen: dict[tuple[NodeKey, int], dict[tuple[RecordId, int], Seen]] = defaultdict(dict)
    for message in read_all(bus, topics.TELEMETRY):
        headers = RecordHeaders.from_kafka(message.key, message.headers)
        cls = next(cls for cls, kind in KINDS.items() if kind is headers.kind)
        body: Telemetry | None
        try:
            body = decode(cls, unframe(message.value or b"")[1])
        except BadRecord:
            body = None
        place = headers.id.node_key, headers.window_start_ns
        seen[place].setdefault((headers.id, headers.mend), Seen(message.offset, body, headers))
    wanted: dict[tuple[NodeKey, int], ChargeSet] = {}
    for node, (launched, ended) in lives.items():
        layout: NodeLayout | None = None
        for start in range(launched - launched % WINDOW_NS, ended, WINDOW_NS):
            inputs = sorted(seen.get((node, start), {}).values(), key=lambda entry: entry.offset)
            states = [entry.body for entry in inputs if isinstance(entry.body, Holdings)]
            layout = states[0].layout if states else layout
            wanted[node, start] = _charged(node, start, inputs, layout, (launched, ended))
    return wanted


def _charged(
    node: NodeKey, start: int, inputs: Sequence[Seen], layout: NodeLayout | None, life: tuple[int, int]
) -> ChargeSet:
    bodies = [entry.body for entry in inputs]
    parts = sorted(entry.headers.part for entry in inputs)
    last = [entry.headers.part for entry in inputs if entry.headers.last]
    epochs = {entry.headers.id.epoch for entry in inputs}
    if not inputs:
        state = "unobserved"
    elif None in bodies:
        state = "refused"
    elif last and len(epochs) == 1 and parts == list(range(last[0] + 1)):
        state = "complete"
    else:
        state = "incomplete"
    readable = [body for body in bodies if body is not None and state != "refused"]
    end = start + WINDOW_NS
    window = NodeWindow(
        *node, start, WINDOW_NS, Revision(0, len(inputs), 0, 1),
        state=state,  # type: ignore[arg-type]
        holdings=[body for body in readable if isinstance(body, Holdings)],
        events=[body for body in readable if isinstance(body, EventBatch)],
        samples=[body for body in readable if isinstance(body, SampleBatch)],
        refused=bodies.count(None),
        layout=layout,
        life_start_ns=life[0] if life[0] > start else None,
        life_end_ns=life[1] if life[1] < end else None,
    )  # fmt: skip
    return charge_window(window, Prices([PRICES]), Teams()).to_record()
