"""`distinct` is `numpy.unique` with an inverse, whatever the values are like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agent.distinct import distinct, first_rows

FAR = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-5, 300)


def check(values: np.ndarray) -> None:
    found, position = distinct(values)
    wanted, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    assert found.dtype == values.dtype
    assert position.dtype == np.int64
    assert found.tolist() == wanted.tolist()
    assert position.tolist() == inverse.tolist()
    assert first_rows(position, len(found)).tolist() == first.tolist()


@given(st.lists(NEAR | FAR, max_size=300))
def test_any_numbers(values: list[int]) -> None:
    check(np.array(values, np.int64))


@given(st.lists(st.tuples(FAR, st.integers(1, 20)), max_size=40))
def test_numbers_in_runs(runs: list[tuple[int, int]]) -> None:
    check(np.array([value for value, length in runs for _ in range(length)], np.int64))


@given(st.lists(FAR, min_size=1, max_size=60), st.integers(1024, 3000))
def test_few_numbers_many_times(few: list[int], rows: int) -> None:
    chosen = np.random.default_rng(rows).integers(len(few), size=rows)
    check(np.array(few, np.int64)[chosen])
    check(np.array(few, np.int64).view(np.uint64)[chosen])


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(2**64 - 9, 2**64 - 1), max_size=100))
def test_numbers_without_a_sign(values: list[int]) -> None:
    check(np.array(values, np.uint64))


@pytest.mark.parametrize("count", [1023, 1024, 1025, 5000])
def test_many_distinct_values(count: int) -> None:
    values = np.random.default_rng(count).permutation(np.arange(count, dtype=np.int64) * (1 << 40))
    check(np.concatenate((values, values)))
