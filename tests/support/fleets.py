"""Random node-windows for the laws of charging: any sharing, holders, calls, samples, prices, policies."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from hypothesis import strategies as st

from gpuledger.attribution import NodeWindow, Policy
from gpuledger.attribution.policy import CHOICES
from gpuledger.contract.columns import longs
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, Holder, NodeLayout, PriceEntry
from tests.support.charging import START, WINDOW, Calls, S, host_process, pod_process, prices, samples
from tests.support.charging import state as state_of
from tests.support.charging import window as window_of

GIB = 1 << 30
SHARINGS = ("exclusive", "time_slicing", "mps", "fractional")
PRICES = prices(
    PriceEntry("a", "gpu", 12_290_000_001, "USD", effective_to_ns=START + 3 * S + 7),
    PriceEntry("b", "gpu", 7_777_777_777, "USD", effective_from_ns=START + 3 * S + 7),
    PriceEntry("node", "node", 98_320_000_003, "USD", instance_type="big", gpu_share_ppb=777_777_777),
    PriceEntry(
        "late", "gpu", 5_000_000_001, "USD", gpu_model="L4", effective_from_ns=START + 6 * S, priority=1
    ),
    PriceEntry("early", "gpu", 3, "USD", region="nowhere", effective_to_ns=START),
)
GAPPY = prices(
    PriceEntry("a", "gpu", 12_290_000_001, "USD", effective_to_ns=START + 3 * S + 7),
    PriceEntry("b", "gpu", 7_777_777_777, "USD", gpu_model="H100", effective_from_ns=START + 4 * S),
    PriceEntry("node", "node", 98_320_000_003, "USD", instance_type="big", effective_from_ns=START + 9 * S),
)
BOOKS = st.sampled_from([PRICES, GAPPY])
times = st.integers(0, 1000).map(lambda value: value / 100)
ALL_POLICIES = [
    Policy(*values) for values in product(*CHOICES.values()) if values[0] == "pay" or values[-1] == "holders"
]
POLICIES = st.sampled_from(ALL_POLICIES)


@st.composite
def layouts(draw: st.DrawFn) -> NodeLayout:
    devices = []
    for index in range(draw(st.integers(1, 3))):
        model = draw(st.sampled_from(["H100", "L4"])) if draw(st.booleans()) else "H100"
        if draw(st.integers(0, 4)) == 0:
            parent = Device(f"GPU-{index}", index=index, model=model, sharing="mig", slices_total=7)
            parent.memory_total_bytes = draw(st.sampled_from([0, 80 * GIB]))
            if draw(st.booleans()):
                parent.slice_starts, parent.slice_size = 0b111_1111, 1
            devices.append(parent)
            left, instance = 7, 0
            while left and draw(st.booleans()):
                slices = draw(st.integers(1, left))
                left -= slices
                devices.append(
                    Device(
                        f"MIG-{index}-{instance}",
                        parent_uuid=f"GPU-{index}",
                        gpu_instance=draw(st.sampled_from([instance, 0])),
                        compute_instance=instance,
                        slices=slices,
                        slices_total=7,
                        model=model,
                        mig_profile=draw(st.sampled_from(["", f"{slices}g.10gb", f"1c.{slices}g.10gb"])),
                        memory_total_bytes=draw(st.sampled_from([0, 10 * GIB, 40 * GIB])),
                        placement_start=draw(st.integers(-1, 7)),
                        placement_size=draw(st.sampled_from([0, 1, 2, 4, 8])),
                        sharing=draw(st.sampled_from(SHARINGS)),
                        replicas=draw(st.integers(1, 2)),
                    )
                )
                instance += 1
            continue
        devices.append(
            Device(
                f"GPU-{index}",
                index=index,
                model=model,
                sharing=draw(st.sampled_from(SHARINGS)),
                replicas=draw(st.integers(1, 4)),
                lost=draw(st.integers(0, 9)) == 0,
                sm_active_declared=draw(st.booleans()),
                memory_total_bytes=draw(st.sampled_from([0, 1 << 20, 80 * GIB])),
            )
        )
    count = draw(st.sampled_from([0, 0, 4]))
    return NodeLayout(instance_type=draw(st.sampled_from(["", "big"])), gpu_count=count, devices=devices)


def learned(draw: st.DrawFn) -> dict[str, Any]:
    """Durations on a keyframe, of some processes; often none."""
    chosen = draw(st.lists(st.integers(0, 4), max_size=2))
    return {
        "learned_process": longs(chosen),
        "learned_function": longs([7] * len(chosen)),
        "learned_threads": longs([0] * len(chosen)),
        "learned_duration_ns": longs([draw(st.integers(0, 10 * S)) for _ in chosen]),
        "learned_count": longs([100] * len(chosen)),
    }


@st.composite
def node_windows(
    draw: st.DrawFn, policies: st.SearchStrategy[Policy] = POLICIES, changing: bool = True
) -> NodeWindow:
    """A window of any node: any mix of sharing, holders, calls, samples, states, policy."""
    start = START + WINDOW * draw(st.integers(0, 2))
    processes = [pod_process(i, f"uid-{i % 3}") for i in range(4)] + [host_process(9)]
    if draw(st.booleans()):
        processes[0] = replace(processes[0], witnessed=False)
    layout = draw(layouts())
    holdings = []
    for number, at in enumerate([0.0, *sorted(set(draw(st.lists(times.filter(bool), max_size=2))))]):
        if number and changing and draw(st.booleans()):
            layout = draw(layouts())
        places = st.integers(0, len(layout.devices) - 1)
        held = draw(st.lists(st.tuples(st.integers(0, 2), places, st.integers(1, 3)), max_size=4))
        holdings.append(
            state_of(
                layout,
                [
                    Holder(
                        f"uid-{who}",
                        place,
                        slots=slots,
                        container=f"c{slots}",
                        mps_percentage=draw(st.sampled_from([None, None, 0.0, 30.0, 100.0])),
                        share_numerator=draw(st.integers(0, 3)),
                        share_denominator=draw(st.sampled_from([0, 0, 4])),
                        memory_limit_bytes=draw(st.sampled_from([None, GIB])),
                    )
                    for who, place, slots in held
                ],
                processes,
                at_s=at,
                start=start,
                sequence=number,
                resident=[(draw(st.integers(0, 4)), draw(places), 1 << 20)],
                outstanding=[(draw(st.integers(0, 4)), draw(places))] if draw(st.booleans()) else [],
                unwitnessed=[draw(st.integers(0, 1)) for _ in layout.devices]
                if draw(st.booleans())
                else None,
                holders_known=draw(st.integers(0, 9)) > 0,
                **learned(draw),
            )
        )
    uuids = ["GPU-0", "GPU-1", "MIG-0-0", "MIG-1-0"]
    calls = Calls(processes, uuids, functions=[7])
    for _ in range(draw(st.integers(0, 12))):
        who, where = draw(st.integers(0, 4)), draw(st.integers(-1, 3))
        operation = draw(
            st.sampled_from(
                [
                    Operation.LAUNCH_KERNEL,
                    Operation.LAUNCH_KERNEL,
                    Operation.SYNCHRONIZE_STREAM,
                    Operation.ALLOCATE_DEVICE,
                    Operation.FREE_DEVICE,
                ]
            )
        )
        calls.call(operation, draw(times), draw(times) / 10, process=who, device=where, bytes=64, function=0)
    sampled = []
    for number in range(draw(st.integers(0, 3))):
        field = draw(
            st.sampled_from(
                [Field.ENGINE_ACTIVE, Field.GPU_UTILIZATION, Field.SM_ACTIVE, Field.PROCESS_SM_UTILIZATION]
            )
        )
        rows = [
            (
                field,
                draw(st.one_of(times, st.just(-15.0))),
                draw(st.one_of(times, st.just(30.0))),
                draw(st.floats(0, 1.2)),
            )
            for _ in range(draw(st.integers(1, 4)))
        ]
        whose = draw(st.integers(0, 4)) if field is Field.PROCESS_SM_UTILIZATION else -1
        device = draw(st.sampled_from(uuids))
        sampled.append(samples(rows, 20 + number, processes, whose, device, start=start))
    return window_of(
        holdings,
        [calls.batch(10, start=start)],
        sampled,
        start=start,
        state=draw(st.sampled_from(["complete", "complete", "incomplete", "unobserved"])),
        layout=holdings[0].layout,
        policy=draw(policies),
        refused=int(draw(st.integers(0, 9)) == 0),
        life_start_ns=draw(st.sampled_from([None, start + 123_456_789])),
        life_end_ns=draw(st.sampled_from([None, start + 7 * S + 1])),
    )
