"""What `explain` is told of a window adds up to its rows, over random node-windows and policies."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings

from gpuledger.attribution import charge_windows
from gpuledger.attribution.trace import Steps
from gpuledger.contract.records import encode
from gpuledger.contract.rows import NODE_DEVICE
from gpuledger.explain.arithmetic import piece_of
from gpuledger.pricing import Teams
from tests.support.fleets import PRICES, node_windows


@settings(max_examples=100, deadline=None)
@given(node_windows())
def test_the_steps_sum_to_the_rows_and_whether_they_are_told_changes_nothing(window):
    steps = Steps()
    (charges,) = charge_windows([window], PRICES, Teams(), steps)
    assert encode(charges.record) == encode(charge_windows([window], PRICES, Teams())[0].record)
    told, rows = defaultdict(int), defaultdict(int)
    for step in steps.pieces:
        for part, ns, nano in zip(step.weighted.parts, step.ns, step.nano, strict=True):
            key = step.device, *part.consumer, part.reason, part.category.name.lower()
            told[*key, "ns"] += ns
            told[*key, "nano"] += nano
    for row in charges.rows():
        if row["device"] == NODE_DEVICE:
            continue
        for category in ("used", "held_idle", "unallocated", "unobserved"):
            key = row["device"], row["consumer_kind"], row["consumer"], row["reason"], category
            for unit in ("ns", "nano"):
                rows[*key, unit] += row[f"{category}_{unit}"]
    assert {key: value for key, value in told.items() if value} == {k: v for k, v in rows.items() if v}


@settings(max_examples=100, deadline=None)
@given(node_windows())
def test_the_arithmetic_of_a_piece_is_whole_and_within_a_unit_of_the_exact_share(window):
    steps = Steps()
    charge_windows([window], PRICES, Teams(), steps)
    book = PRICES.at(window.window_start_ns)
    for step in steps.pieces:
        piece = piece_of(step, book, lambda entry: entry)
        assert sum(price["nano"] for price in piece["prices"]) == piece["cost_nano"]
        assert sum(part["nano"] for part in piece["parts"]) == piece["cost_nano"]
        assert sum(part["weight"] for part in piece["parts"]) == piece["parts"][0]["of"]
        for part in piece["parts"]:
            assert abs(part["nano"] * part["of"] - piece["cost_nano"] * part["weight"]) < part["of"]
