"""docs/policies.md: every figure on the page is what the core computes for the page's example."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.attribution import Policy, charge_window, charge_windows
from gpuledger.attribution.policy import CHOICES
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import Device, Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import START, Calls, S, gpu, pod_process, prices, state, window

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
GIB = 1 << 30
RATE = 12.29  # dollars an hour
P, Q = pod_process(1, "P"), pod_process(2, "Q")
LAYOUT = NodeLayout(
    devices=[gpu(sharing="time_slicing", replicas=4, memory_total_bytes=80 * GIB)],
)
HELD = [Holder("P", 0), Holder("Q", 0, slots=2)]
MINUTE = START // (60 * S) * 60 * S  # windows of a minute are aligned to minutes


def example(policy: Policy):
    """One GPU of four slots. P holds one and works 60 % of the time, Q holds two and works 10 %, one is free.
    P keeps 60 of the 80 GiB."""
    keyframe = state(LAYOUT, HELD, [P, Q], resident=[(0, 0, 60 * GIB)])
    calls = Calls([P, Q]).busy(0, 6).busy(6, 7, process=1)
    return charge_window(window([keyframe], [calls.batch()], policy=policy), prices(), Teams())


def lines(charges) -> list[str]:
    """The rows as the page's table has them: dollars of the hour."""
    sums: dict[str, list[float]] = {}
    for row in charges.rows():
        lent = row["reason"] == "lent"
        parts = [row["used_ns"], 0 if lent else row["held_idle_ns"], 0 if lent else row["unallocated_ns"]]
        parts += [row.total_ns if lent else 0, row.total_ns]
        mine = sums.setdefault(row["consumer"] or "the pool", [0.0] * 5)
        for index, part in enumerate(parts):
            mine[index] += part / (10 * S) * RATE
    return [
        "| " + " | ".join([who, *(f"{value:.3f}" if value else "" for value in values)]) + " |"
        for who, values in sorted(sums.items())
    ]


POLICIES = [
    Policy(),
    Policy(burst="reserved_first"),
    Policy(idle="pool"),
    Policy(entitlement="max(slots,memory)"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name(10 * S))
def test_the_pages_table_of_a_policy_is_what_the_core_computes(policy):
    charges = example(policy)
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    assert {row["policy"] for row in charges.rows()} == {policy.name(10 * S)}
    assert "\n".join(lines(charges)) in PAGE


def test_every_setting_and_value_is_on_the_page():
    for name, values in CHOICES.items():
        for value in values:
            assert f"`{name}: {value}`" in PAGE


@pytest.mark.parametrize("mig", CHOICES["mig"])
def test_the_pages_table_of_mig_is_what_the_core_computes(mig):
    """Two instances 3g.40gb of an 80 GB H100: 3 of 7 SM slices and 4 of 8 memory slices each. By slices 3/7
    each and the seventh is stranded, since no memory is left for it; by their greater part 4/8 each."""
    instances = [
        Device(
            f"MIG-{i}",
            parent_uuid="GPU-0",
            gpu_instance=i,
            slices=3,
            slices_total=7,
            model="H100",
            mig_profile="3g.40gb",
            memory_total_bytes=40 * GIB,
        )
        for i in (1, 2)
    ]
    layout = NodeLayout(devices=[gpu(sharing="mig", slices_total=7, memory_total_bytes=80 * GIB), *instances])
    held = state(layout, [Holder("P", 1), Holder("Q", 2)])
    charges = charge_window(window([held], [Calls([]).batch()], policy=Policy(mig=mig)), prices(), Teams())
    assert charges.conservation_error_nano == 0
    cells = {row["consumer"] or "pool": f"{row.total_ns / (10 * S) * RATE:.3f}" for row in charges.rows()}
    assert f"| `mig: {mig}` | {cells['P']} | {cells['Q']} | {cells.get('pool', '')} |" in PAGE


@pytest.mark.parametrize("seconds", [10, 60])
def test_the_pages_table_of_window_lengths_is_what_the_core_computes(seconds):
    """In each minute P works 0-24 s and Q 24-27 s; each holds half. In windows of a minute P has used less
    than its half and pays that. In windows of 10 s it had all of the first two and pays half of the others:
    (1 + 1 + 4 x 0.5) / 6 = 2/3."""
    layout = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
    length = seconds * S
    windows = []
    for start in range(MINUTE, MINUTE + 60 * S, length):
        calls = Calls([P, Q])
        for process, low, high in ((0, 0, 24), (1, 24, 27)):
            low, high = max(low, (start - MINUTE) / S), min(high, (start + length - MINUTE) / S)
            if low < high:
                calls.busy(low - (start - MINUTE) / S, high - (start - MINUTE) / S, process)
        keyframe = state(layout, [Holder("P", 0), Holder("Q", 0)], [P, Q], start=start)
        windows.append(window([keyframe], [calls.batch(start=start)], start=start, length=length))
    rows = [row for charges in charge_windows(windows, prices(), Teams()) for row in charges.rows()]
    cells = [sum(r.total_ns for r in rows if r["consumer"] == who) / (60 * S) * RATE for who in "PQ"]
    assert f"| {seconds} s | {cells[0]:.3f} | {cells[1]:.3f} |" in PAGE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"burst": "free"}, "burst policy 'free' is not one of pay, reserved_first"),
        ({"mig": "memory"}, "mig policy 'memory' is not one of slices, dominant"),
        ({"burst": "reserved_first", "idle": "pool"}, "does not go with burst policy 'reserved_first'"),
        ({"burst": "reserved_first", "idle": "cluster"}, "does not go with burst policy 'reserved_first'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(Refused, match=message):
        Policy(**settings)


def test_a_policy_is_named_by_what_is_not_the_default():
    assert Policy().name(10 * S) == "pay/10s"
    assert Policy("reserved_first", mig="dominant").name(60 * S) == "reserved_first/60s/mig=dominant"
    assert Policy(entitlement="max(slots,memory)", idle="cluster").name(1_500_000_000) == (
        "pay/1500000000ns/entitlement=max(slots,memory)/idle=cluster"
    )
