"""The laws of charging over random node-windows, whatever the policy."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.attribution import Policy, charge_window, charge_windows
from gpuledger.contract.records import encode
from gpuledger.pricing import NON_GPU, PricedDevice, Teams
from tests.support.charging import START, WINDOW, S
from tests.support.charging import window as window_of
from tests.support.fleets import ALL_POLICIES, BOOKS, PRICES, layouts, node_windows


def content(charges) -> bytes:
    return encode(charges.to_record())


@settings(max_examples=150, deadline=None)
@given(node_windows(), BOOKS)
def test_every_window_adds_up_and_no_part_is_negative(window, book):
    charges = charge_window(window, book, Teams())
    assert charges.conservation_error_nano == 0
    assert charges.conservation_error_ns == 0
    for row in charges.rows():
        for name in ("used", "held_idle", "unallocated", "unobserved"):
            assert row[f"{name}_ns"] >= 0
            assert row[f"{name}_nano"] >= 0
        assert 0 <= row["unpriced_ns"] <= row.total_ns
        assert 0 <= row["effectively_used_ns"] <= row["used_ns"]
        if window.policy.burst == "pay":
            assert row["borrowed_ns"] <= row["used_ns"] + 1
        assert row["confidence_low_ns"] <= row["used_ns"] + 1
        assert row["used_ns"] <= row["confidence_high_ns"] + 1


@settings(max_examples=100, deadline=None)
@given(node_windows(changing=False), BOOKS)
def test_each_gpu_costs_its_price_times_its_time(window, prices):
    """All rows of a GPU, of its instances and of what no instance covers, against its price as if it were
    whole: to the nano-unit and to the nanosecond, whoever used it and however it was cut. Time without a
    price is stated, no more and no less."""
    rows = list(charge_window(window, prices, Teams()).rows())
    layout, book = window.layout, prices.at(window.window_start_ns)
    start, end = window.life_ns
    gpus = [device for device in layout.devices if not device.parent_uuid]
    for gpu in gpus:
        mine = [row for row in rows if gpu.uuid in (row["device"], row["parent_uuid"])]
        whole = PricedDevice(
            instance_type=layout.instance_type,
            cluster="c",
            gpu_model=gpu.model,
            position=gpu.index,
            gpu_count=max(layout.gpu_count, len(gpus)),
        )
        assert whole.position != NON_GPU
        assert sum(row.total_ns for row in mine) == end - start
        cost = book.cost(whole, start, end)
        assert sum(row.total_nano for row in mine) == cost.nano
        assert sum(row["unpriced_ns"] for row in mine) == cost.unpriced_gpu_ns


@settings(max_examples=60, deadline=None)
@given(node_windows(policies=st.just(Policy())))
def test_no_policy_changes_what_a_device_costs(window):
    totals = []
    for policy in ALL_POLICIES:
        by_gpu: dict[str, tuple[int, int]] = {}
        for row in charge_window(replace(window, policy=policy), PRICES, Teams()).rows():
            nano, ns = by_gpu.get(row["parent_uuid"] or row["device"], (0, 0))
            by_gpu[row["parent_uuid"] or row["device"]] = nano + row.total_nano, ns + row.total_ns
        totals.append({gpu: total for gpu, total in by_gpu.items() if any(total)})
    assert all(total == totals[0] for total in totals)


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
