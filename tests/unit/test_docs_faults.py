"""docs/faults.md names a test for each fault, and the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "faults.md").read_text()
NAMED = sorted(set(re.findall(r"\| (\S+\.py)::(\w+) \|$", PAGE, re.MULTILINE)))


def test_every_line_of_the_table_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert len(lines) > 30
    assert all(re.search(r"\.py::test_\w+ \|$", line) for line in lines)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_is_named_is_there(path: str, name: str):
    tree = ast.parse((TESTS / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
