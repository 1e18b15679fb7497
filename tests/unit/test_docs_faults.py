"""docs/faults.md names a test for each fault; the test is there and works the right value out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "faults.md").read_text()
LINES = re.findall(r"^\| [^|]+ \| ([^|]+) \| (\S+\.py)::(\w+) \|$", PAGE, re.MULTILINE)
ISSUE = r"[\w-]*#\d+"


def test_every_line_of_the_table_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert len(lines) > 30
    assert len(LINES) == len(lines)


@pytest.mark.parametrize(("reported", "path", "name"), LINES, ids=[line[2] for line in LINES])
def test_the_test_names_the_fault_and_the_right_value(reported: str, path: str, name: str):
    tree = ast.parse((TESTS / path).read_text())
    tests = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    said = ast.get_docstring(tests[name]) or ""
    issues = re.findall(r"#\d+", reported)
    assert not issues or any(issue in said for issue in issues)
    assert re.search(r"\d", re.sub(ISSUE, "", said)), "a value worked out by hand has a digit"
