"""The laws of charging over random node-windows."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.attribution import NodeWindow, charge_window, charge_windows
from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.formula import Category, holders_missing, largest_remainder, occupied_missing, pay
from gpuledger.attribution.pieces import Entitlement, Holding
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, Holder, NodeLayout, PriceEntry, encode
from gpuledger.pricing import Teams
from tests.support.charging import START, WINDOW, Calls, S, host_process, pod_process, prices, samples
from tests.support.charging import state as state_of
from tests.support.charging import window as window_of

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
times = st.integers(0, 1000).map(lambda value: value / 100)


@st.composite
def layouts(draw: st.DrawFn) -> NodeLayout:
    devices = []
    for index in range(draw(st.integers(1, 3))):
        model = draw(st.sampled_from(["H100", "L4"])) if draw(st.booleans()) else "H100"
        if draw(st.integers(0, 4)) == 0:
            devices.append(Device(f"GPU-{index}", index=index, model=model, sharing="mig", slices_total=7))
            left, instance = 7, 0
            while left and draw(st.booleans()):
                slices = draw(st.integers(1, left))
                left -= slices
                devices.append(
                    Device(
                        f"MIG-{index}-{instance}",
                        parent_uuid=f"GPU-{index}",
                        gpu_instance=instance,
                        slices=slices,
                        slices_total=7,
                        model=model,
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
            )
        )
    count = draw(st.sampled_from([0, 0, 4]))
    return NodeLayout(instance_type=draw(st.sampled_from(["", "big"])), gpu_count=count, devices=devices)


@st.composite
def node_windows(draw: st.DrawFn) -> NodeWindow:
    start = START + WINDOW * draw(st.integers(0, 2))
    processes = [pod_process(i, f"uid-{i % 3}") for i in range(4)] + [host_process(9)]
    if draw(st.booleans()):
        processes[0] = replace(processes[0], witnessed=False)
    layout = draw(layouts())
    holdings = []
    for number, at in enumerate([0.0, *sorted(set(draw(st.lists(times.filter(bool), max_size=2))))]):
        layout = draw(st.sampled_from([layout, draw(layouts())])) if number else layout
        places = st.integers(0, len(layout.devices) - 1)
        held = draw(st.lists(st.tuples(st.integers(0, 2), places, st.integers(1, 3)), max_size=4))
        holdings.append(
            state_of(
                layout,
                [
                    Holder(f"uid-{who}", place, slots=slots, container=f"c{slots}")
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
            )
        )
    uuids = ["GPU-0", "GPU-1", "MIG-0-0", "MIG-1-0"]
    calls = Calls(processes, uuids)
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
        calls.call(operation, draw(times), draw(times) / 10, process=who, device=where, bytes=64)
    sampled = []
    for number in range(draw(st.integers(0, 3))):
        field = draw(
            st.sampled_from(
                [Field.ENGINE_ACTIVE, Field.GPU_UTILIZATION, Field.SM_ACTIVE, Field.PROCESS_SM_UTILIZATION]
            )
        )
        rows = [
            (field, draw(times), draw(times), draw(st.floats(0, 1.2))) for _ in range(draw(st.integers(1, 4)))
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
        layout=layout,
        refused=int(draw(st.integers(0, 9)) == 0),
        life_start_ns=draw(st.sampled_from([None, start + 123_456_789])),
        life_end_ns=draw(st.sampled_from([None, start + 7 * S + 1])),
    )


def content(charges) -> bytes:
    return encode(charges.to_record())


@settings(max_examples=150, deadline=None)
@given(node_windows())
def test_every_window_adds_up_and_no_part_is_negative(window):
    charges = charge_window(window, PRICES, Teams())
    assert charges.conservation_error_nano == 0
    assert charges.conservation_error_ns == 0
    for row in charges.rows():
        for name in ("used", "held_idle", "unallocated", "unobserved"):
            assert row[f"{name}_ns"] >= 0
            assert row[f"{name}_nano"] >= 0
        assert 0 <= row["unpriced_ns"] <= row.total_ns
        assert 0 <= row["effectively_used_ns"] <= row["used_ns"]
        assert row["borrowed_ns"] <= row["used_ns"] + 1
        assert row["confidence_low_ns"] <= row["used_ns"] + 1
        assert row["used_ns"] <= row["confidence_high_ns"] + 1


@settings(max_examples=60, deadline=None)
@given(node_windows(), st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_changes_no_byte(window, shuffle: random.Random):
    expected = content(charge_window(window, PRICES, Teams()))
    mixed = {name: list(getattr(window, name)) for name in ("holdings", "events", "samples")}
    for records in mixed.values():
        records.extend(records[:1])  # a repeat is no second input
        shuffle.shuffle(records)
    assert content(charge_window(replace(window, **mixed), PRICES, Teams())) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(node_windows(), min_size=2, max_size=4))
def test_which_windows_are_charged_together_changes_no_byte(windows):
    together = [content(charges) for charges in charge_windows(windows, PRICES, Teams())]
    alone = [content(charge_window(window, PRICES, Teams())) for window in windows]
    assert together == alone


@settings(max_examples=40, deadline=None)
@given(layouts(), st.lists(st.integers(1, 599), max_size=4, unique=True))
def test_any_run_of_windows_adds_up_to_the_whole(layout, cuts):
    """A minute in 10 s windows, against the same minute in pieces of life cut anywhere: the same money."""

    def total(bounds):
        windows = []
        for start in range(START, START + 6 * WINDOW, WINDOW):
            for low, high in bounds:
                if max(low, start) < min(high, start + WINDOW):
                    windows.append(
                        window_of(
                            start=start,
                            state="unobserved",
                            layout=layout,
                            life_start_ns=low,
                            life_end_ns=high,
                        )
                    )
        rows = [row for charges in charge_windows(windows, PRICES, Teams()) for row in charges.rows()]
        return sum(row.total_nano for row in rows), sum(row.total_ns for row in rows)

    edges = [START, *sorted(START + cut * S // 10 for cut in cuts), START + 6 * WINDOW]
    assert total(list(pairwise(edges))) == total([(START, START + 6 * WINDOW)])


weights = st.lists(st.integers(0, 10**12), min_size=1, max_size=6).filter(any)


@given(st.integers(0, 10**18), weights)
def test_largest_remainder_divides_exactly_and_within_one(amount, shares):
    parts = largest_remainder(amount, shares, sum(shares))
    assert sum(parts) == amount
    for part, share in zip(parts, shares, strict=True):
        assert abs(part - Fraction(amount * share, sum(shares))) < 1
    rests = [Fraction(amount * share, sum(shares)) % 1 for share in shares]
    floors = [amount * share // sum(shares) for share in shares]
    raised = [i for i, part in enumerate(parts) if part > floors[i]]
    for i in raised:  # nobody with a larger remainder, or the same one earlier, was passed over
        assert all(j in raised for j in range(len(parts)) if (-rests[j], j) < (-rests[i], i))


@st.composite
def formula_inputs(draw: st.DrawFn):
    length = draw(st.integers(1, 10**10))
    occupied = draw(st.integers(0, length))
    used, left = {}, occupied
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True)):
        used[ConsumerKey("pod", name)] = draw(st.integers(0, left))
        left -= used[ConsumerKey("pod", name)]
    numbers = draw(st.lists(st.integers(1, 5), max_size=4))
    held = tuple(Entitlement(ConsumerKey("pod", "bcde"[i]), n, (("", 1),)) for i, n in enumerate(numbers))
    denominator = draw(st.integers(max(sum(numbers), 1), sum(numbers) + 5))
    return length, occupied, used, Holding(held, denominator)


@settings(max_examples=300)
@given(formula_inputs(), st.integers(0, 10**12))
def test_the_formula_is_the_one_of_the_rules(inputs, cost):
    """Against the definition in rationals: used C a_i, idle in proportion to max(0, e_i - a_i) and e_0."""
    length, occupied, used, holding = inputs
    weighted = pay(length, occupied, used, holding)
    assert sum(weighted.weights) == weighted.total
    a = {key: Fraction(value, length) for key, value in used.items()}
    e = {item.consumer: Fraction(item.weight, holding.denominator) for item in holding.entitlements}
    wants = {key: max(Fraction(0), part - a.get(key, 0)) for key, part in e.items()}
    free = 1 - sum(e.values())
    whole = sum(wants.values()) + free
    idle = 1 - Fraction(occupied, length)
    assert whole >= idle
    for part, weight, nano in zip(weighted.parts, weighted.weights, weighted.divide(cost), strict=True):
        exact = {
            Category.USED: lambda part=part: a[part.consumer],
            Category.HELD_IDLE: lambda part=part: idle * wants[part.consumer] / whole,
            Category.UNALLOCATED: lambda: idle * free / whole,
            Category.UNOBSERVED: lambda: Fraction(occupied, length) - sum(a.values()),
        }[part.category]()
        assert Fraction(weight, weighted.total) == exact
        assert abs(nano - cost * exact) < 1
        if part.category is Category.HELD_IDLE:
            assert nano < cost * wants[part.consumer] + 1


@given(formula_inputs(), st.integers(0, 10**12))
def test_missing_values_leave_nothing_out(inputs, cost):
    length, _, used, holding = inputs
    for weighted in (occupied_missing(holding), holders_missing(length, used)):
        assert sum(weighted.weights) == weighted.total
        assert sum(weighted.divide(cost)) == cost


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), times, times), max_size=40))
def test_processor_sharing_is_the_equal_split_at_each_instant(spans):
    """Against a plain sweep over every border: at each instant each process with work gets 1/|S|."""
    processes = [pod_process(i, f"uid-{i}") for i in range(4)]
    calls = Calls(processes)
    by_process: dict[int, list[tuple[float, float]]] = {}
    for who, one, other in spans:
        low, high = min(one, other), max(one, other)
        taken = by_process.setdefault(who, [])
        if low < high and all(high < a or low > b for a, b in taken):
            taken.append((low, high))
            calls.busy(low, high, process=who)
    layout = NodeLayout(devices=[Device("GPU-0", index=0, sharing="time_slicing", replicas=4)])
    charges = charge_window(window_of([state_of(layout, [], processes)], [calls.batch()]), PRICES, Teams())
    borders = sorted({at for taken in by_process.values() for span in taken for at in span})
    expected = dict.fromkeys(range(4), 0.0)
    for low, high in pairwise(borders):
        active = [who for who, taken in by_process.items() if any(a <= low and high <= b for a, b in taken)]
        for who in active:
            expected[who] += (high - low) / len(active)
    got = {row["consumer"]: row["used_ns"] for row in charges.rows() if row["consumer"]}
    for who, seconds in expected.items():
        assert math.isclose(got.get(f"uid-{who}", 0), seconds * S, abs_tol=50)
