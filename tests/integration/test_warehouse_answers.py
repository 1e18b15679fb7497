"""Answers that somebody who does the accounts would take at their word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuledger.contract.clock import NS_PER_S, SystemClock
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import NAMED, Grain, Warehouse, period
from tests.support.charge_sets import WINDOW_NS, arrival, charge_set, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns()
EXAMPLES = re.findall(
    r"^SELECT.*?;$",
    (Path(__file__).parents[2] / "docs" / "columns.md").read_text(),
    re.DOTALL | re.MULTILINE,
)
GRAINS = pytest.mark.parametrize("grain", list(Grain))


def write(warehouse: Warehouse, *sets: ChargeSet) -> Writer:
    writer = Writer(warehouse, SystemClock())
    writer.write(Batch([arrival(charges, offset) for offset, charges in enumerate(sets)]))
    return writer


def ask(warehouse: Warehouse, name: str, grain: Grain) -> list[dict[str, Any]]:
    span = period(START // NS_PER_S, START // NS_PER_S + 3600)
    rows: list[dict[str, Any]] = warehouse.arrow(NAMED[name].sql(grain), span).to_pylist()
    return rows


def with_evidence(charges: ChargeSet, *evidences: str) -> ChargeSet:
    first = len(charges.texts)
    charges.texts = [*charges.texts, *evidences]
    charges.evidence = np.arange(first, first + len(evidences), dtype=np.int64)
    return charges


def money_of_hour(warehouse: Warehouse) -> Any:
    return warehouse.rows("SELECT sum(total) FROM charges_hourly")[0][0]


def test_an_hour_whose_windows_expired_keeps_its_sums_while_some_of_them_come_again(
    warehouse: Warehouse,
) -> None:
    """A correction of an old hour comes window by window: until the last is there, what was stored holds."""
    writer = write(warehouse, *(charge_set(START + n * WINDOW_NS) for n in range(5)))
    writer.store_hours()
    before = money_of_hour(warehouse)
    for table in ("charge_rows", "charge_windows"):
        warehouse.command(f"TRUNCATE TABLE {table}")
    corrected = [charge_set(START + n * WINDOW_NS, generation=1) for n in range(5)]
    for charges in corrected[:4]:
        writer.write(Batch([arrival(charges, 9)]))
        assert money_of_hour(warehouse) == before
    writer.write(Batch([arrival(corrected[4], 9)]))
    after = money_of_hour(warehouse)
    assert after == warehouse.rows("SELECT sum(total) FROM charges")[0][0] != before
    writer.store_hours()
    assert money_of_hour(warehouse) == after


@GRAINS
def test_a_named_query_says_how_much_of_the_time_has_no_price(warehouse: Warehouse, grain: Grain) -> None:
    priced, partly = charge_set(START, 1), charge_set(START + WINDOW_NS, 1)
    priced.unpriced_ns[:] = 0
    partly.unpriced_ns[:] = 1800 * NS_PER_S
    write(warehouse, priced, partly)
    assert [row["unpriced_gpu_hours"] for row in ask(warehouse, "by_team", grain)] == [0.5]


@GRAINS
def test_a_named_query_names_the_weakest_evidence_of_what_was_used(
    warehouse: Warehouse, grain: Grain
) -> None:
    """The strongest comes last, and what the idle row rests on does not count."""
    names = ("busy_estimated", "equal_slots", "device_total", "process_measured")
    charges = with_evidence(charge_set(START, pods=["a", "b", "c", "d"]), *names)
    charges.pod, charges.team = charges.pod[[0] * 4], charges.team[[0] * 4]
    charges.used_ns[:] = (5, 5, 0, 5)
    write(warehouse, charges)
    assert [row["evidence"] for row in ask(warehouse, "by_pod", grain)] == ["equal_slots"]


@GRAINS
def test_pods_of_one_name_in_two_clusters_are_two(warehouse: Warehouse, grain: Grain) -> None:
    """opencost#2979, koku#711: a name is one pod's within its cluster and namespace alone."""
    write(warehouse, *(charge_set(START, pods=["a"], cluster=name, nano=7) for name in ("east", "west")))
    found = {(row["cluster"], row["pod"]): row["used"] for row in ask(warehouse, "by_pod", grain)}
    assert {name for name, pod in found if pod == "a"} == {"east", "west"}


@GRAINS
def test_sm_active_is_called_the_devices_and_is_weighted_with_gpu_time(
    warehouse: Warehouse, grain: Grain
) -> None:
    """3 s at 0.8 and 1 s at 0.2, and 1 s at which it is not known."""
    sets = [charge_set(START + n * WINDOW_NS, 1) for n in range(3)]
    for charges, seconds, active in zip(sets, (3, 1, 1), (0.8, 0.2, np.nan), strict=True):
        for name in ("held_idle_ns", "unallocated_ns", "unobserved_ns"):
            getattr(charges, name)[:] = 0
        charges.used_ns[:] = seconds * NS_PER_S
        charges.sm_active[:] = active
        charges.booking_period = f"2026-0{seconds}"
    sets[2].state = "incomplete"
    write(warehouse, *sets)
    for name in ("by_pod", "by_device"):
        (row,) = ask(warehouse, name, grain)
        assert row["device_sm_active"] == pytest.approx(0.65)
        assert "sm_active" not in row


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_documentation_has_an_answer(warehouse: Warehouse, number: int) -> None:
    flagged = charge_set(START, 2)
    flagged.flags[:] = 64
    flagged.consumer_kind[:] = 1
    write(warehouse, flagged)
    assert warehouse.rows(EXAMPLES[number].rstrip(";"))
