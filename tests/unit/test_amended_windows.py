"""From the cutter through the processor's protocol to the charge: an amendment restates its window."""

from __future__ import annotations

from gpuledger.agent.state import View
from gpuledger.agent.windows import Part
from gpuledger.attribution import Charges, NodeWindow, charge_window, check_record
from gpuledger.bus import Incoming
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode, encode
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.windows import WindowGrid
from gpuledger.pricing import Teams
from gpuledger.processor.protocol import Decision, Label, LogRecord, PartitionOwner
from gpuledger.processor.reading import log_record
from tests.support.agent import NODE, POD, Bench, S, raw
from tests.support.charging import prices
from tests.unit.test_agent_names import NAMED, NAMELESS, tell

W = 10 * S
KINDS = {EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES, Holdings: Kind.HOLDINGS}


class Line:
    """A partition with one owner: what is put in is decided and charged as far as it can be."""

    def __init__(self) -> None:
        self._owner = PartitionOwner(0, 0, lambda cluster: WindowGrid(W))
        self._log: list[tuple[LogRecord, Part]] = []
        self.decided: list[tuple[Decision, Charges]] = []

    def put(self, parts: list[Part], at_ns: int) -> None:
        for part in parts:
            headers = RecordHeaders.of(part.header, KINDS[type(part)], getattr(part, "keyframe", False))
            sent = RecordHeaders.from_kafka(NODE.key, headers.to_kafka())
            message = Incoming(TELEMETRY, 0, len(self._log), at_ns // 1_000_000, NODE.key, b"")
            record = log_record(message, sent)
            self._log.append((record, decode(type(part), encode(part))))
            self._owner.read(record)
        while tasks := self._owner.plan():
            records = {
                (task.node, task.window_start_ns): [
                    record for record, _ in self._log if record.window_start_ns == task.window_start_ns
                ]
                for task in tasks
            }
            batch = self._owner.settle(tasks, records)
            self._owner.commit(batch)
            self.decided += [(decision, self._charge(decision)) for decision in batch.decisions]

    def _charge(self, decision: Decision) -> Charges:
        bodies = [self._log[record.offset][1] for record in decision.inputs]
        for body in bodies:
            check_record(body)
        window = NodeWindow(
            *decision.node,
            decision.window_start_ns,
            W,
            decision.revision,
            holdings=[body for body in bodies if isinstance(body, Holdings)],
            events=[body for body in bodies if isinstance(body, EventBatch)],
            samples=[body for body in bodies if isinstance(body, SampleBatch)],
        )
        return charge_window(window, prices(), Teams())


def test_an_amendment_restates_its_window_which_stays_complete_and_costs_the_same() -> None:
    bench = Bench()
    bench.state.view = View(NAMELESS)
    bench.state.latest = NAMELESS
    bench.cutter.add_events(
        bench.resolve(raw(2 * S), raw(6 * S, Operation.SYNCHRONIZE_CONTEXT, duration_ns=4 * S))
    )
    line = Line()
    line.put(bench.advance(W + S), W + S)
    tell(bench, W + 2 * S)
    line.put(bench.advance(W + 3 * S), W + 3 * S)
    (first, before), (second, after) = line.decided
    assert (first.window_start_ns, second.window_start_ns) == (0, 0)
    assert (first.label, second.label) == (Label.COMPLETE, Label.COMPLETE)
    assert second.revision > first.revision
    assert len(second.inputs) == len(first.inputs) + 1
    rows = [next(r.values for r in c.rows() if r.values["consumer"] == POD) for c in (before, after)]
    assert [(row["pod"], row["team"]) for row in rows] == [
        ("", ""),
        ("train-0", NAMED.pods[0].labels["team"]),
    ]
    assert rows[0]["used_ns"] == rows[1]["used_ns"] > 0
    assert before.conservation_error_nano == after.conservation_error_nano == 0
