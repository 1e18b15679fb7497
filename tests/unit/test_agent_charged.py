"""What the agent says of a simulated node, charged by the core, is the truth that the node was made with."""

from collections import defaultdict
from pathlib import Path

import pytest

from gpuledger.agent.rules import TALLY
from gpuledger.agent.simulated import SimulatedNode
from gpuledger.agent.spool import NodeQueue, Pressure
from gpuledger.contract.rows import Flag
from tests.support.agent import S
from tests.support.agent_bench import Bench
from tests.support.agent_charged import charges_of, starts_of


@pytest.mark.parametrize("pressure", [Pressure.NONE, Pressure.TALLY])
def test_events_alone_give_the_true_shares_raw_or_tallied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pressure: Pressure
) -> None:
    monkeypatch.setattr(NodeQueue, "pressure", pressure)
    bench = Bench(tmp_path)
    bench.run(31)
    node, records = SimulatedNode(), bench.records()
    starts = starts_of(records)
    assert len(starts) == 3
    for start in starts:
        bodies = [body for headers, body in records if headers.window_start_ns == start]
        assert {body.header.coarsening for body in bodies} == {TALLY if pressure else 0}
        charges = charges_of(records, start)
        assert charges.conservation_error_nano == 0
        used: dict[str, float] = defaultdict(float)
        launches: dict[str, int] = defaultdict(int)
        for row in charges.rows():
            used[row.values["consumer"]] += row.values["used_ns"] / (10 * S)
            launches[row.values["consumer"]] += row.values["launches"]
            assert row.values["completeness"] == 1.0
        for actor in node.actors:
            consumer = actor.pod.uid if actor.pod else f"{actor.pid}-1-boot"
            assert used[consumer] == pytest.approx(actor.busy_ns(0, S) / S, abs=0.005)
            assert launches[consumer] == 10 * sum(step.launches for step in actor.steps)


def test_where_calls_were_left_out_nobody_says_how_much_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeQueue, "pressure", Pressure.HOLLOW)
    bench = Bench(tmp_path)
    bench.run(21)
    records = bench.records()
    for start in starts_of(records):
        charges = charges_of(records, start)
        assert charges.conservation_error_nano == 0
        for row in charges.rows():
            assert row.values["evidence"] == "none"
            assert row.values["lost_events"] > 0
            assert Flag(row.values["flags"]) & Flag.EVENTS_LOST
