"""What really happened in a window: the table that every estimate is held against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuledger.simulate.activity import activity
from gpuledger.simulate.plan import NodePlan
from gpuledger.simulate.spec import FleetSpec


class TruthRow(NamedTuple):
    """One consumer on one device in one window. ``busy_ns`` is time of that device, also where it
    is a MIG instance (SM-time under MPS), and ``held_ns`` the time in which it held a part of the device."""

    cluster: str
    node: str
    window_start_ns: int
    device: str
    consumer_kind: str
    consumer: str
    busy_ns: int
    held_ns: int
    observed: bool
    """Whether an agent was there all the time."""


def truth(spec: FleetSpec, plan: NodePlan, window_start_ns: int) -> Iterator[TruthRow]:
    """The rows of a window, in the order of the node's tenants."""
    seen = activity(spec, plan, window_start_ns)
    end = window_start_ns + spec.window_ns
    low, high = max(window_start_ns, plan.launched_ns), min(end, plan.ended_ns)
    observed = any(life.start_ns <= low and life.end_ns >= high for life in plan.lives)
    for tenant, busy in zip(seen.tenants, seen.busy_ns.tolist(), strict=True):
        process = tenant.process()
        held = min(high, tenant.end_ns) - max(low, tenant.start_ns) if tenant.slots else 0
        yield TruthRow(
            *plan.key,
            window_start_ns,
            plan.layout.devices[tenant.device].uuid,
            process.consumer_kind,
            process.consumer,
            round(busy),
            max(held, 0),
            observed,
        )
