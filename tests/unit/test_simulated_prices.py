"""The prices and clocks of a simulated fleet change, and the command keeps what it was asked for."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuledger.attribution import charge_windows
from gpuledger.cli import app
from gpuledger.pricing import PriceBook, PricedDevice, Prices, Teams
from gpuledger.pricing.yaml_documents import read_prices
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.plan import DRIFT
from gpuledger.simulate.prices import price_document
from tests.unit.test_simulate import starts, window

SPEC = FleetSpec(gpus=64, hours=0.5, seed=11, agent_crashes=20.0)
BOOK = read_prices(price_document(SPEC), "prices.yaml")


def node_of(**more: str) -> int:
    """A node of the fleet that is so."""
    for number in range(SPEC.nodes):
        layout = plan_node(SPEC, number).layout
        if all(getattr(layout, name) == value for name, value in more.items()):
            return number
    raise AssertionError(f"no node is {more}")


def test_the_same_fleet_has_the_same_prices_and_another_seed_others() -> None:
    assert price_document(SPEC) == price_document(SPEC) != price_document(replace(SPEC, seed=12))


@pytest.mark.parametrize("kind", ["spot", "on_demand"])
def test_what_a_node_costs_while_its_prices_change_is_what_its_windows_sum_to(kind: str) -> None:
    """All windows of a node against its price over its whole life, which is computed without any of them."""
    number = node_of(capacity_type=kind)
    plan = plan_node(SPEC, number)
    found = charge_windows([window(SPEC, number, at) for at in starts(SPEC)], Prices([BOOK]), Teams())
    rows = [row for charges in found for row in charges.rows()]
    layout = plan.layout
    device = PricedDevice(
        instance_type=layout.instance_type,
        zone=layout.zone,
        region=layout.region,
        capacity_type=layout.capacity_type,
        gpu_count=8,
    )
    low, high = max(SPEC.start_ns, plan.launched_ns), min(SPEC.end_ns, plan.ended_ns)
    assert sum(row.total_nano for row in rows) == PriceBook(BOOK).node_cost_nano(device, low, high)
    assert all(row["unpriced_ns"] == 0 for row in rows)
    pieces = PriceBook(BOOK).pieces(device, SPEC.start_ns, SPEC.end_ns)
    assert len({piece.unit_price_nano_per_hour for piece in pieces}) > 1


def test_a_clock_that_drifts_is_set_anew_with_each_epoch() -> None:
    """The offsets of a node's epochs lie on a line of its own slope, but for the 2 ms of a comparison."""
    for number in range(SPEC.nodes):
        lives = plan_node(SPEC, number).lives
        for one, other in pairwise(lives):
            moved = other.clock_offset_ns - one.clock_offset_ns
            assert abs(moved) < 5 * DRIFT * (other.start_ns - one.start_ns) + 20e6
    seconds, offsets = [], []
    for number in range(SPEC.nodes):
        first, *others = plan_node(replace(SPEC, hours=24.0, agent_crashes=2.0), number).lives
        if others:
            seconds.append(others[-1].start_ns - first.start_ns)
            offsets.append(others[-1].clock_offset_ns - first.clock_offset_ns)
    slopes = np.array(offsets) / np.array(seconds)
    assert DRIFT / 4 < np.std(slopes) < DRIFT * 4


def simulated(*options: str) -> Any:
    done = CliRunner().invoke(app, ["simulate", "--json", *options], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_the_command_writes_records_truth_and_prices(tmp_path: Path) -> None:
    start = ("--start", "2026-12-01T00:00:00Z")
    told = simulated("--gpus", "8", "--hours", "0.01", "--calm", "--out", str(tmp_path / "fleet"), *start)
    assert (told["nodes"], told["windows"], told["start_ns"]) == (1, 4, 1_796_083_200 * 10**9)
    with (tmp_path / "fleet" / "truth.csv").open() as rows:
        assert {row["observed"] for row in csv.DictReader(rows)} == {"True"}
    assert read_prices((tmp_path / "fleet" / "prices.yaml").read_text(), "prices.yaml").entries
    elsewhere = ("--truth", str(tmp_path / "t.csv"), "--prices", str(tmp_path / "p.yaml"))
    simulated("--gpus", "8", "--hours", "0.01", "--out", str(tmp_path / "other"), *elsewhere, *start)
    assert sorted(path.name for path in (tmp_path / "other").iterdir() if path.suffix != ".avro") == []
    assert (tmp_path / "t.csv").stat().st_size > 100
