"""What recommendations promise, against what the ledger shows once they are carried out on the simulator.

Run from the repository root: ``python -m benchmarks.savings``. The past of a fleet is charged and recommended
from; the future is charged as it would have been and with each change alone. The figure is all that was
promised for the future's hours over all that was realised, for a fleet whose pods come and go; beside it the
same for a fleet that stays as it is, and in how many cases the realised saving lay within the interval.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import write_figure
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.recommend import gather, recommend
from gpuledger.spend import Span
from gpuledger.warehouse import connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.savings import GPUS_A_NODE, PAST_HOURS, Outcome, World, realised, world
from tests.support.simulated import charged, write

NODES = 8
POD_CHANGES = 0.2  # a node and hour: some of the holders of the past are gone in the future
ROUNDING_NANO = 1000


def main() -> None:
    start = (SystemClock().unix_ns() // HOUR_NS - PAST_HOURS) * HOUR_NS
    steady = _outcomes(world(start, NODES))
    changing = _outcomes(world(start, NODES, pod_changes=POD_CHANGES))
    promised, real = _sums(changing)
    write_figure(
        "savings",
        promised,
        "USD promised",
        real,
        promised / real,
        len(changing),
        baseline_name="USD realised when each change is made to the simulated fleet and charged again",
        changing=_by_change(changing),
        steady=_by_change(steady),
        shape={"nodes": NODES + 1, "gpus_a_node": GPUS_A_NODE, "pod_changes_a_node_and_hour": POD_CHANGES},
    )


def _by_change(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    found = {}
    for change in sorted({one.change for one in outcomes}):
        mine = [one for one in outcomes if one.change == change]
        promised, real = _sums(mine)
        within = sum(map(_is_within, mine))
        found[change] = {"n": len(mine), "promised": promised, "realised": real, "within_interval": within}
        print(f"{change:<16} {promised:8.2f} promised  {real:8.2f} realised  {within} of {len(mine)} within")
    return found


def _sums(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    promised = sum(one.promised_nano for one in outcomes)
    return promised / NANO_PER_UNIT, sum(one.realised_nano for one in outcomes) / NANO_PER_UNIT


def _outcomes(before: World) -> list[Outcome]:
    first_s = before.spec.start_ns // NS_PER_S
    with tempfile.TemporaryDirectory() as folder, EmbeddedWarehouse(Path(folder)) as server:
        warehouse = connect(server.url, create_database=True)
        try:
            migrate(warehouse)
            write(warehouse, charged(before.past, before.plans))
            evidence = gather(warehouse, Span(first_s, first_s + PAST_HOURS * 3600))
        finally:
            warehouse.close()
    return realised(before, recommend(evidence, before.settings))


def _is_within(one: Outcome) -> bool:
    return one.low_nano - ROUNDING_NANO <= one.realised_nano <= one.high_nano + ROUNDING_NANO


if __name__ == "__main__":
    main()
