"""What recommendations promise, against what the ledger shows once they are carried out on the simulator.

Run from the repository root: ``python -m benchmarks.savings``. The past of a fleet is charged and recommended
from; the future is charged as it would have been and with each change alone. Every rule is tried, each in a
fleet in which it speaks. The figure is all that was promised for the future's hours over all that was
realised, for fleets whose pods come and go and whose seeds were looked at by nobody when limits and intervals
were chosen (``HELD_OUT``); beside it in how many cases the realised saving lay within the interval, the same
for the seed that they were chosen with, and each rule where pods stay.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import write_figure
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S
from gpuledger.recommend import gather, recommend
from gpuledger.recommend.rules.spot import SPOT
from gpuledger.spend import Span
from gpuledger.warehouse import connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.changes import CHANGES
from tests.support.savings import Outcome, realised
from tests.support.simulated import write
from tests.support.worlds import (
    GPUS_A_NODE,
    OTHER_NODES,
    PAST_HOURS,
    World,
    in_halves,
    of_small_gpus,
    working_week,
    world,
)

NODES = 8
CHOSEN_WITH = 14  # the seed with which the least width of an interval was chosen
HELD_OUT = (3001, 3002, 3003)
MORE_OF_SPOT = (3004, 3005, 3006, 3007)  # what spot costs is known in few of these fleets
POD_CHANGES = 0.2  # a node and hour: some of the holders of the past are gone in the future
ROUNDING_NANO = 1000
WEEK_DAYS = 7
FIRST_MONDAY_DAY = 4  # 1970-01-05


def main() -> None:
    now_ns = SystemClock().unix_ns()
    start = (now_ns // HOUR_NS - PAST_HOURS) * HOUR_NS
    staying = [
        *_outcomes(world(start, NODES)),
        *_outcomes(of_small_gpus(start, 2)),
        *_outcomes(in_halves(start, 1)),
        *_outcomes(working_week(_monday(now_ns), 1)),
    ]
    missing = set(CHANGES) - {one.rule for one in staying}
    assert not missing, f"no fleet in which these speak: {missing}"
    chosen = _outcomes(world(start, NODES, CHOSEN_WITH, POD_CHANGES))
    held_out = [
        one
        for seeds, rule in ((HELD_OUT, ""), (MORE_OF_SPOT, SPOT))
        for seed in seeds
        for one in _outcomes(world(start, NODES, seed, POD_CHANGES), rule)
    ]
    promised, real = _sums(held_out)
    write_figure(
        "savings",
        promised,
        "USD promised",
        real,
        promised / real,
        len(held_out),
        baseline_name="USD realised when each change is made to the simulated fleet and charged again",
        within_interval=sum(map(_is_within, held_out)),
        pods_come_and_go_held_out=_by_rule("pods come and go, held-out seeds", held_out),
        pods_come_and_go_chosen_with=_by_rule("pods come and go, the seed that was chosen with", chosen),
        pods_stay=_by_rule("pods stay", staying),
        shape={
            "nodes": NODES + OTHER_NODES,
            "gpus_a_node": GPUS_A_NODE,
            "pod_changes_a_node_and_hour": POD_CHANGES,
            "held_out_seeds": list(HELD_OUT),
            "held_out_seeds_of_spot_alone": list(MORE_OF_SPOT),
        },
    )


def _monday(now_ns: int) -> int:
    """The Monday before the last one: its week is over, and the warehouse keeps it still."""
    days = now_ns // DAY_NS
    return (days - (days - FIRST_MONDAY_DAY) % WEEK_DAYS - WEEK_DAYS) * DAY_NS


def _by_rule(what: str, outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    print(what)
    for rule in sorted({one.rule for one in outcomes}):
        mine = [one for one in outcomes if one.rule == rule]
        promised, real = _sums(mine)
        within = sum(map(_is_within, mine))
        found[rule] = {"n": len(mine), "promised": promised, "realised": real, "within_interval": within}
        print(f"  {rule:<22} {promised:9.2f} promised {real:9.2f} realised  {within} of {len(mine)} within")
    return found


def _sums(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    promised = sum(one.promised_nano for one in outcomes)
    return promised / NANO_PER_UNIT, sum(one.realised_nano for one in outcomes) / NANO_PER_UNIT


def _outcomes(before: World, rule: str = "") -> list[Outcome]:
    first_s = before.spec.start_ns // NS_PER_S
    with tempfile.TemporaryDirectory() as folder, EmbeddedWarehouse(Path(folder)) as server:
        warehouse = connect(server.url, create_database=True)
        try:
            migrate(warehouse)
            write(warehouse, before.charged(before.past, before.plans))
            evidence = gather(warehouse, Span(first_s, first_s + before.past_hours * 3600))
        finally:
            warehouse.close()
    found = recommend(evidence, before.settings)
    return realised(before, [one for one in found if rule in ("", one.rule)])


def _is_within(one: Outcome) -> bool:
    return one.low_nano - ROUNDING_NANO <= one.realised_nano <= one.high_nano + ROUNDING_NANO


if __name__ == "__main__":
    main()
