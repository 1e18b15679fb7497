"""Charge sets as Arrow tables: every digit, every missing value."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest

from gpuledger.contract.records import Keeper
from gpuledger.sink.tables import charge_rows, charge_windows
from gpuledger.warehouse.migrations import load
from tests.support.charge_sets import WINDOW_NS, arrival, charge_set


def columns_of(table: str) -> set[str]:
    statements = [one.statement for one in load()]
    (made,) = (text for text in statements if f"TABLE IF NOT EXISTS {table}\n" in text)
    added = "".join(text for text in statements if f"ALTER TABLE {table}\n" in text)
    later = re.findall(r"^    ADD COLUMN IF NOT EXISTS (\w+) ", added, re.MULTILINE)
    return {*re.findall(r"^    (\w+) [A-Z]", made, re.MULTILINE), *later}


@pytest.mark.parametrize(
    ("table", "build"), [("charge_rows", charge_rows), ("charge_windows", charge_windows)]
)
def test_a_table_has_exactly_the_columns_of_the_warehouse(table: str, build: object) -> None:
    assert callable(build)
    assert set(build([arrival(charge_set(0))]).column_names) == columns_of(table)


def test_money_keeps_every_nano_unit() -> None:
    charges = charge_set(WINDOW_NS, 3)
    charges.used_nano = np.array([1, 9_223_372_036_854_775_807, 0], np.int64)
    table = charge_rows([arrival(charges)])
    assert table["used"].to_pylist() == [Decimal("0.000000001"), Decimal("9223372036.854775807"), Decimal(0)]


def test_money_of_an_unpriced_row_is_missing_and_not_zero() -> None:
    table = charge_rows([arrival(charge_set(0, 2, priced=False)), arrival(charge_set(WINDOW_NS, 1))])
    assert table["used"].null_count == 2
    assert table["used"].to_pylist()[2] is not None
    assert table["used_ns"].null_count == 0


def test_a_measured_value_that_is_missing_is_null() -> None:
    charges = charge_set(0, 3)
    charges.sm_active = np.array([0.0, np.nan, 0.5])
    assert charge_rows([arrival(charges)])["sm_active"].to_pylist() == [0.0, None, 0.5]


def test_effectively_used_is_null_where_it_is_not_known() -> None:
    table = charge_rows([arrival(charge_set(0, 4))])
    assert [value is None for value in table["effectively_used_ns"].to_pylist()] == [True, False, True, False]
    assert [value is None for value in table["effectively_used"].to_pylist()] == [True, False, True, False]


def test_pods_that_keep_a_node_are_texts_side_by_side() -> None:
    kept = charge_set(0)
    kept.keepers = [
        Keeper("u", "shop", "web-0", "StatefulSet/web", ["no_controller", "local_storage"]),
        Keeper("v", "ops", "shell"),
    ]
    kept.keepers_count = 20
    table = charge_windows([arrival(charge_set(WINDOW_NS)), arrival(kept)])
    assert table["kept_by"].to_pylist() == [[], ["shop/web-0", "ops/shell"]]
    assert table["kept_by_workload"].to_pylist() == [[], ["StatefulSet/web", ""]]
    assert table["kept_by_why"].to_pylist() == [[], ["no_controller,local_storage", ""]]
    assert table["kept_by_count"].to_pylist() == [0, 20]


def test_texts_of_different_sets_do_not_mix() -> None:
    sets = [
        charge_set(0, pods=["a", "b"]),
        charge_set(WINDOW_NS, pods=["c"]),
        charge_set(2 * WINDOW_NS, pods=["b", "d"]),
    ]
    table = charge_rows([arrival(s, n) for n, s in enumerate(sets)])
    assert table["pod"].to_pylist() == ["a", "b", "c", "b", "d"]
    assert table["team"].to_pylist() == ["team-a", "team-b", "team-a", "team-a", "team-b"]
    assert set(table["gpu_model"].chunk(0).dictionary.to_pylist()) == {"H100"}


@pytest.mark.parametrize("names", [255, 256, 257, 65_537])
def test_texts_keep_apart_however_many_there_are(names: int) -> None:
    pods = [f"pod-{number}" for number in range(names)]
    table = charge_rows([arrival(charge_set(0, pods=pods))])
    assert table["pod"].to_pylist() == pods
    assert set(table["evidence"].to_pylist()) == {"busy_estimated"}


def test_a_record_read_twice_makes_the_same_bytes() -> None:
    first, second = (charge_rows([arrival(charge_set(WINDOW_NS), 5)]) for _ in range(2))
    assert first.equals(second)


def test_a_window_row_counts_its_rows() -> None:
    table = charge_windows([arrival(charge_set(0, 3)), arrival(charge_set(WINDOW_NS, 0))])
    assert table["rows"].to_pylist() == [3, 0]
    assert table["completeness"].to_pylist()[1] is None
