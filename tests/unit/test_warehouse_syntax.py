"""Syntax errors of a statement, short enough to be read."""

from __future__ import annotations

import pytest

from gpuledger.contract.errors import WarehouseError
from gpuledger.warehouse.syntax import shortened

GROUP = "SELECT team, currency FROM charges GROUP BU team"
MANY = "token sequence, Dot, token, OR, AND, IS NOT DISTINCT FROM, IS NULL, BETWEEN, end of query"


def said(message: str, statement: str) -> str:
    return str(shortened(WarehouseError(f"Code: 62. DB::Exception: Syntax error: {message}", 62), statement))


@pytest.mark.parametrize(
    "message",
    [
        "failed at position 42 (BU): BU team. Expected one of: BY, end of query. (SYNTAX_ERROR)",
        "failed at position 42 ('BU') (line 1, col 42): BU team. Expected one of: BY, end of query. "
        "(SYNTAX_ERROR) (version 25.8.2.29)",
    ],
)
def test_a_syntax_error_names_the_word_its_place_and_what_would_do(message: str) -> None:
    text = said(message, GROUP)
    assert text.startswith(
        "syntax error at 'BU', line 1, column 42: ..., currency FROM charges GROUP BU team; "
    )
    assert "expected BY or end of query" in text


def test_a_long_list_of_what_is_expected_is_left_out() -> None:
    text = said(f"failed at position 7 (1): 1. Expected one of: {MANY}. (SYNTAX_ERROR)", "SELECT1 1")
    assert "xpected" not in text


def test_a_position_is_counted_in_bytes_and_told_in_lines_and_characters() -> None:
    statement = "SELECT 'käse',\n  'brot' FRM x"
    at = len(statement[: statement.index("FRM")].encode()) + 1
    text = said(f"failed at position {at} (FRM): FRM x. (SYNTAX_ERROR)", statement)
    assert "at 'FRM', line 2, column 10: 'brot' FRM x" in text


def test_a_parenthesis_that_is_never_closed_is_said() -> None:
    text = said(
        "failed at position 10 (end of query): (1. Unmatched parentheses: '(' at position 8 is never closed. "
        "(SYNTAX_ERROR)",
        "SELECT (1",
    )
    assert "unmatched parentheses: '(' at position 8 is never closed" in text


def test_other_errors_stay_as_they_are() -> None:
    error = WarehouseError("Code: 47. DB::Exception: Unknown expression identifier `nope`", 47)
    assert shortened(error, "SELECT nope") is error
