"""ClickHouse's syntax errors, cut to what a person needs: where, and which word."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuledger.contract.errors import WarehouseError

SYNTAX_ERROR = 62
FEW_EXPECTED = 5  # more than so many alternatives help nobody: ClickHouse names up to a hundred
AROUND_CHARACTERS = 30  # of the statement before and behind the word: enough to recognise the place

# "failed at position 42 ('BU') (line 1, col 42): BU team. Expected one of: BY, end of query."
_FAILED = re.compile(r"failed at position (?P<position>\d+) \((?P<word>.*?)\)(?= \(line|[:.])", re.DOTALL)
_EXPECTED = re.compile(r"Expected(?: one of)?: (?P<names>.*?)\.(?: \(SYNTAX_ERROR\)|$)", re.DOTALL)
_UNMATCHED = re.compile(r"Unmatched parentheses[^.]*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement breaks: line and column count from 1, ``near`` is what stands there."""

    line: int
    column: int
    near: str


def shortened(error: WarehouseError, statement: str) -> WarehouseError:
    """The error in one short line where it is about syntax; any other error as it is."""
    said = whole(error)
    failed = _FAILED.search(said)
    if error.code != SYNTAX_ERROR or failed is None:
        return error
    place = _place(statement, int(failed["position"]))
    word = failed["word"].strip("'")
    text = f"syntax error at {word!r}, line {place.line}, column {place.column}: {place.near}"
    return WarehouseError(f"{text}{_help(said)} (--verbose has ClickHouse's own words)", error.code)


def whole(error: WarehouseError) -> str:
    """All that ClickHouse said, also of a statement of many lines; an error's own text is its first line."""
    said = str(error.__cause__ or error)
    return said[max(0, said.find("Code: ")) :].split(" (for url ")[0].strip()


def _place(statement: str, position: int) -> Place:
    """``position`` counts bytes from 1."""
    before = statement.encode()[: max(0, position - 1)].decode(errors="ignore")
    line_start = before.rfind("\n") + 1
    lines = statement[line_start:].split("\n")
    at = len(before) - line_start
    first, last = max(0, at - AROUND_CHARACTERS), at + AROUND_CHARACTERS
    near = lines[0][first:last].strip()
    return Place(
        before.count("\n") + 1,
        at + 1,
        f"{'...' if first else ''}{near}{'...' if last < len(lines[0]) else ''}",
    )


def _help(message: str) -> str:
    if unmatched := _UNMATCHED.search(message):
        return f"; {unmatched[0][0].lower()}{unmatched[0][1:]}"
    expected = _EXPECTED.search(message)
    if expected is None:
        return ""
    names = expected["names"].split(", ")
    return f"; expected {' or '.join(names)}" if len(names) <= FEW_EXPECTED else ""
