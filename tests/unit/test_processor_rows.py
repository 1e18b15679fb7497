"""The rows of a node: whatever is packed meanwhile, they are what was put."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.contract.windows import HOUR_NS, MINUTE_NS
from gpuledger.processor.protocol import PackedRows, Statement, WindowRow
from gpuledger.processor.protocol.rows import Rows

LONGS = st.integers(0, 2**62)
STATEMENTS = st.builds(
    Statement,
    layout=st.sampled_from([None, "eight", "seven"]),
    keyframe_offset=st.integers(-1, 2**40),
    goodbye=st.booleans(),
    goodbye_append_ns=st.none() | LONGS,
)
ROWS = st.builds(
    WindowRow,
    generation=st.integers(0, 65535),
    inputs=st.integers(0, 10_001),
    lowest=st.integers(-1, 2**62),
    highest=st.integers(-1, 2**62),
    statement=st.none() | STATEMENTS,
    alive_ns=st.integers(-1, MINUTE_NS),
    input_bytes=LONGS,
)
STARTS = st.integers(-90, 600).map(lambda minute: minute * MINUTE_NS)  # ten hours, three of them open at most


@given(st.lists(st.tuples(STARTS, ROWS), max_size=30), STARTS)
def test_rows_are_what_was_put_last_before_and_after_a_trim(
    puts: list[tuple[int, WindowRow]], before: int
) -> None:
    rows, wanted = Rows(), {}
    for start, row in puts:
        rows.put(start, row)
        wanted[start] = row
    speaking = {start for start, row in wanted.items() if row.statement is not None}
    _agree(rows, wanted)
    assert list(rows.speaking_before(HOUR_NS * 100)) == sorted(speaking, reverse=True)
    assert list(rows.speaking_behind(-HOUR_NS * 100)) == sorted(speaking)
    rows.trim(before)
    spoken = max((start for start in speaking if start < before), default=None)
    _agree(rows, {start: row for start, row in wanted.items() if start >= before or start == spoken})


@given(st.lists(st.tuples(STARTS, ROWS), max_size=30))
def test_rows_that_are_filled_are_what_was_put_one_by_one(puts: list[tuple[int, WindowRow]]) -> None:
    wanted = dict(puts)
    rows, filled = Rows(), Rows()
    for start, row in sorted(wanted.items()):
        rows.put(start, row)
    filled.fill(wanted)
    _agree(filled, wanted)
    assert filled.newest_inputs == rows.newest_inputs
    for speaking in (lambda one: one.speaking_before(HOUR_NS * 100), lambda one: one.speaking_behind(0)):
        assert list(speaking(filled)) == list(speaking(rows))


@given(st.lists(st.tuples(STARTS, ROWS), max_size=30), st.lists(st.tuples(STARTS, ROWS), max_size=30))
def test_rows_that_come_later_and_are_older_are_what_was_not_known(
    older: list[tuple[int, WindowRow]], newer: list[tuple[int, WindowRow]]
) -> None:
    rows, wanted = Rows(), {**dict(older), **dict(newer)}
    rows.fill(dict(newer))
    hours: dict[int, dict[int, WindowRow]] = {}
    for start, row in older:
        hours.setdefault(start // HOUR_NS, {})[start] = row
    rows.add_older(PackedRows.of(hour) for hour in hours.values())
    _agree(rows, wanted)
    assert rows.newest_inputs == max((start for start, row in wanted.items() if row.inputs), default=None)
    speaking = [start for start, row in wanted.items() if row.statement is not None]
    assert list(rows.speaking_behind(-HOUR_NS * 100)) == sorted(speaking)


def _agree(rows: Rows, wanted: dict[int, WindowRow]) -> None:
    assert len(rows) == len(wanted)
    assert set(rows.starts()) == wanted.keys()
    assert dict(rows.items()) == wanted
    for start in {*wanted, *(one + MINUTE_NS for one in wanted)}:
        assert rows.get(start) == wanted.get(start)
        assert (start in rows) == (start in wanted)
    assert {start: rows[start] for start in wanted} == wanted
