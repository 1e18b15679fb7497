"""Processor sharing against a plain sweep."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuledger.attribution import charge_window
from gpuledger.attribution.outstanding import Intervals
from gpuledger.attribution.sharing import cells_of, processor_sharing
from gpuledger.contract.columns import longs
from gpuledger.contract.records import Device, Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, pod_process
from tests.support.charging import state as state_of
from tests.support.charging import window as window_of
from tests.support.fleets import PRICES, times


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


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), times, times), max_size=20),
    st.lists(st.integers(1, 100), min_size=3, max_size=3),
)
def test_under_mps_each_has_its_percentage_at_each_instant(spans, percentages):
    """Against a plain sweep: p_i / max(1, sum p) at each instant."""
    processes = [pod_process(i, f"uid-{i}") for i in range(3)]
    calls = Calls(processes)
    by_process: dict[int, list[tuple[float, float]]] = {}
    for who, one, other in spans:
        low, high = min(one, other), max(one, other)
        taken = by_process.setdefault(who, [])
        if low < high and all(high < a or low > b for a, b in taken):
            taken.append((low, high))
            calls.busy(low, high, process=who)
    layout = NodeLayout(devices=[Device("GPU-0", index=0, sharing="mps", replicas=3)])
    held = [Holder(f"uid-{i}", 0, mps_percentage=float(p)) for i, p in enumerate(percentages)]
    charges = charge_window(window_of([state_of(layout, held, processes)], [calls.batch()]), PRICES, Teams())
    borders = sorted({at for taken in by_process.values() for span in taken for at in span})
    expected = dict.fromkeys(range(3), 0.0)
    for low, high in pairwise(borders):
        active = [who for who, taken in by_process.items() if any(a <= low and high <= b for a, b in taken)]
        asked = sum(percentages[who] for who in active) / 100
        for who in active:
            expected[who] += (high - low) * percentages[who] / 100 / max(1.0, asked)
    for who, seconds in expected.items():
        rows = [row for row in charges.rows() if row["consumer"] == f"uid-{who}"]
        assert math.isclose(sum(row["used_ns"] for row in rows), seconds * S, abs_tol=50)


Cut = tuple[list[int], list[tuple[int, int]]]
"""A device: the borders of its cells, one behind the other, and when its two pairs had work by turns (us)."""
instants = st.integers(0, 3_000)
cuts = st.tuples(
    st.lists(instants, min_size=2, max_size=4, unique=True).map(sorted),
    st.lists(instants, min_size=2, max_size=12, unique=True).map(
        lambda found: list(zip(sorted(found)[::2], sorted(found)[1::2], strict=False))
    ),
)


def shares_of(devices: list[Cut]) -> list[list[tuple[int, ...]]]:
    """Of each device the parts of its cells, numbered from its own first cell and pair on."""
    cells = [(n, low, high) for n, (borders, _) in enumerate(devices) for low, high in pairwise(borders)]
    spans = [
        (2 * n + k % 2, low * 1000, high * 1000)
        for n, (_, work) in enumerate(devices)
        for k, (low, high) in enumerate(work)
    ]
    spans.sort()
    pair, start, end = longs(spans).reshape(-1, 3).T
    device, low, high = longs(cells).reshape(-1, 3).T
    borders = cells_of(device, low * 1000, high * 1000, len(devices))
    count = len(spans)
    found = processor_sharing(
        Intervals(pair, start, end, np.ones(count, bool), *(np.full(count, n) for n in (1, -1, 1))),
        np.arange(2 * len(devices)) // 2,
        borders,
    )
    rows = list(zip(*(column.tolist() for column in found), strict=True))
    return [
        [(row[0] - int(borders.first[n]), row[1] - 2 * n, *row[2:]) for row in rows if row[1] // 2 == n]
        for n in range(len(devices))
    ]


@settings(max_examples=200, deadline=None)
@example([([40, 100], [(0, 100)]), ([0, 50, 100], [(0, 100)])])
@given(st.lists(cuts, min_size=2, max_size=3))
def test_what_a_device_is_charged_with_beside_others_is_what_it_is_alone(devices: list[Cut]) -> None:
    """The first example: work that began before its device's only cell, beside work that is cut in two."""
    assert shares_of(devices) == [shares_of([device])[0] for device in devices]
