"""The ledger of a simulated fleet: its windows charged by the core, and written to a warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from gpuledger.attribution import NodeWindow, charge_windows
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import (
    ChargeSet,
    EventBatch,
    Holdings,
    Pod,
    PriceBookVersion,
    PriceEntry,
    SampleBatch,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Prices, Teams
from gpuledger.simulate import FleetSpec, NodePlan
from gpuledger.simulate.records import window_records
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import arrival

GPU_HOUR_NANO = 12_290_000_000
PRICES = Prices([PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", GPU_HOUR_NANO, "USD")])])
TEAMS = Teams([TeamMapVersion(1, 0, rules=[TeamRule("label", label_key="team")])])
AT_A_TIME = 64  # node-windows in one pass of the core


def charged(
    spec: FleetSpec,
    plans: Sequence[NodePlan],
    prices: Prices = PRICES,
    teams: Teams = TEAMS,
    every_ns: int | None = None,
    cpu_pods: Mapping[str, Pod] = MappingProxyType({}),
) -> list[ChargeSet]:
    """The charge sets of every window of the nodes, or of one each ``every_ns``; agents never crash. On the
    nodes that are named in ``cpu_pods`` there is a pod that holds no GPU."""
    step = every_ns or spec.window_ns
    windows = [
        _window(spec, plan, start, cpu_pods.get(plan.key.node))
        for start in range(spec.start_ns, spec.end_ns, step)
        for plan in plans
        if start < plan.ended_ns and start + spec.window_ns > plan.launched_ns
    ]
    sets: list[ChargeSet] = []
    for first in range(0, len(windows), AT_A_TIME):
        for charges in charge_windows(windows[first : first + AT_A_TIME], prices, teams):
            assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
            sets.append(charges.to_record())
    return sets


def write(warehouse: Warehouse, sets: Iterable[ChargeSet], store_hours: bool = False) -> None:
    """As the sink does; ``store_hours`` also sums the hours that are over."""
    writer = Writer(warehouse, SystemClock())
    writer.write(Batch([arrival(charges, offset) for offset, charges in enumerate(sets)]))
    if store_hours:
        writer.store_hours()


def _window(spec: FleetSpec, plan: NodePlan, start: int, cpu_pod: Pod | None) -> NodeWindow:
    records = list(window_records(spec, plan, start))
    if cpu_pod is not None:
        for one in records:
            if isinstance(one, Holdings):
                one.pods = [*one.pods, cpu_pod]
    return NodeWindow(
        *plan.key,
        start,
        spec.window_ns,
        Revision(0, len(records), 7, CORE_VERSION),
        holdings=[one for one in records if isinstance(one, Holdings)],
        events=[one for one in records if isinstance(one, EventBatch)],
        samples=[one for one in records if isinstance(one, SampleBatch)],
        layout=plan.layout,
        life_start_ns=plan.launched_ns if plan.launched_ns > start else None,
        life_end_ns=plan.ended_ns if plan.ended_ns < start + spec.window_ns else None,
    )
