"""Policy `idle: cluster`: the pool's idle money carried by whoever used the cluster, hour by hour, in SQL."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

from gpuledger.attribution import Policy, charge_window
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import ChargeSet, Device, Holder, NodeLayout
from gpuledger.pricing import Teams
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import HOUR_NS, arrival, recent_window_ns
from tests.support.charging import WINDOW, Calls, gpu, pod_process, prices, state, window

pytest_plugins = ["tests.support.warehouse"]

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
START = recent_window_ns()
RATE = Decimal("12.29")
CLUSTER = Policy(idle="cluster")
P, Q = pod_process(1, "P"), pod_process(2, "Q")
SLICED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
BILL = """
SELECT consumer, sum(paid) FROM
(
    SELECT if(consumer_kind = 'pool', 'pool', consumer) AS consumer, h.total AS paid FROM charges_hourly AS h
    UNION ALL
    SELECT if(consumer_kind = 'pool', 'pool', consumer), carried FROM cluster_idle
)
GROUP BY consumer
"""


def example(start: int, policy: Policy = CLUSTER, busy_p: float = 6, cluster: str = "c") -> ChargeSet:
    """The page's example: of four slots P holds one and works 60 %, Q holds two and works 10 %."""
    keyframe = state(SLICED, [Holder("P", 0), Holder("Q", 0, slots=2)], [P, Q], start=start)
    calls = Calls([P, Q])
    if busy_p:
        calls.busy(0, busy_p)
    calls.busy(6, 7, process=1)
    charges = charge_window(
        window([keyframe], [calls.batch(start=start)], start=start, policy=policy), prices(), Teams()
    )
    assert charges.conservation_error_nano == 0
    charges.record.cluster = cluster
    return charges.record


def quiet(start: int) -> ChargeSet:
    """Another node of the cluster, which nobody holds."""
    keyframe = state(NodeLayout(devices=[Device("GPU-9", index=9, model="H100")]), start=start)
    charges = charge_window(
        window([keyframe], [Calls([]).batch(start=start)], start=start, policy=CLUSTER), prices(), Teams()
    )
    charges.record.node = "quiet"
    return charges.record


def write(warehouse: Warehouse, *sets: ChargeSet) -> None:
    Writer(warehouse, SystemClock()).write(Batch([arrival(one, n) for n, one in enumerate(sets)]))


def carried(warehouse: Warehouse, column: str = "carried") -> dict[str, Decimal]:
    return dict(
        warehouse.rows(f"SELECT if(consumer_kind = 'pool', 'pool', consumer), {column} FROM cluster_idle")
    )


def test_the_pages_table_is_what_the_query_says(warehouse: Warehouse) -> None:
    """P used 60 of the 70 that were used: of the pool's 3.687 it carries 6/7, 3.160, and Q 0.527."""
    starts = range(START, START + 360 * WINDOW, WINDOW)
    write(warehouse, *map(example, starts))
    found, bill = carried(warehouse), dict(warehouse.rows(BILL))
    used = dict(warehouse.rows("SELECT consumer, sum(h.used) FROM charges_hourly AS h GROUP BY 1"))
    for who in "PQ":
        assert f"| {who} | {used[who]:.3f} | {found[who]:.3f} | {bill[who]:.3f} |" in PAGE
    assert sum(found.values()) == 0
    assert bill["pool"] == 0
    assert sum(bill.values()) == RATE  # to the nano-unit


def test_parts_sum_to_the_nano_unit_and_lie_within_one_of_their_share(warehouse: Warehouse) -> None:
    write(warehouse, *(example(START + n * WINDOW, busy_p=n + 0.37) for n in range(5)), quiet(START))
    for column, taken, share in (
        ("carried", "h.unallocated", "h.used"),
        ("carried_ns", "h.unallocated_ns", "h.used_ns"),
    ):
        found = carried(warehouse, column)
        pool = warehouse.rows(f"SELECT sum({taken}) FROM charges_hourly AS h WHERE consumer_kind = 'pool'")[
            0
        ][0]
        used = dict(
            warehouse.rows(
                f"SELECT consumer, sum({share}) FROM charges_hourly AS h "
                "WHERE consumer_kind = 'pod' GROUP BY 1"
            )
        )
        smallest = Decimal("1e-9") if column == "carried" else 1
        assert found["pool"] == -pool
        assert sum(found.values()) == 0
        for who, amount in used.items():
            assert abs(found[who] - pool * amount / sum(used.values())) <= smallest


def test_other_policies_other_clusters_and_hours_that_run_carry_nothing(warehouse: Warehouse) -> None:
    write(
        warehouse,
        example(START, Policy(idle="pool")),
        example(START, Policy(), cluster="d"),
        example((time.time_ns() // HOUR_NS + 1) * HOUR_NS),  # it may begin before the view is asked
    )
    assert carried(warehouse) == {}


def test_an_hour_in_which_nobody_used_anything_stays_with_the_pool(warehouse: Warehouse) -> None:
    write(warehouse, quiet(START))
    assert carried(warehouse) == {}


def test_one_cluster_does_not_carry_what_another_let_lie(warehouse: Warehouse) -> None:
    write(warehouse, example(START), example(START, cluster="d"), quiet(START))
    rows = warehouse.rows(
        "SELECT cluster, sum(carried) FROM cluster_idle WHERE consumer_kind = 'pool' GROUP BY 1"
    )
    one, both = (dict(rows)[name] for name in ("d", "c"))
    assert one < 0
    assert both < 3 * one  # its own, and all of the quiet node
