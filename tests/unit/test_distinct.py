"""Distinct values of columns, against numpy's own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from gpuledger.agent.distinct import Column, distinct, values_of

COLUMNS = npst.arrays(
    np.int64, st.integers(0, 40), elements=st.sampled_from([0, 1, 5, -1, 2**62, -(2**63), 2**63 - 1])
)
MODULES = "import sys; from gpuledger.agent.distinct import distinct; import numpy; "
MODULES += "distinct(numpy.array([1 << 60, 5, 1 << 60])); print('numpy.ma' in sys.modules)"


@given(COLUMNS)
def test_values_are_those_of_numpy(column: Column) -> None:
    assert values_of(column).tolist() == np.unique(column).tolist()
    found, place = distinct(column)
    assert found.tolist() == np.unique(column).tolist()
    assert found[place].tolist() == column.tolist()


def test_finding_them_imports_nothing_more() -> None:
    said = subprocess.run([sys.executable, "-c", MODULES], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
