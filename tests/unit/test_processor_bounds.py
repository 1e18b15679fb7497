"""What a processor holds, opens and writes is bounded, whatever nodes and gpu.nodes say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records import Device, NodeLayout
from gpuledger.contract.windows import DAY_NS, HOUR_NS, WindowGrid
from gpuledger.processor.progress import hours_to_write, loaded
from gpuledger.processor.progress_writer import expired, within
from gpuledger.processor.protocol import (
    Announcement,
    Batch,
    Label,
    Lifetime,
    LogRecord,
    NodeProgress,
    PartitionOwner,
    Reading,
    Rules,
    Skipped,
    Statement,
    WindowRow,
    WindowTask,
)

S = 1_000_000_000
W = 10 * S
START = 1_699_999_200 * S  # a whole hour
NODE = NodeKey("c", "n")
DAY = Rules(oldest_ns=DAY_NS)
OPEN_FROM = DAY.open_from(START + 5 * S)


def owner(rules: Rules | None = None, **more: object) -> PartitionOwner:
    return PartitionOwner(0, 0, lambda cluster: WindowGrid(W), rules, **more)  # type: ignore[arg-type]


def record(offset: int, start: int = START, **more: object) -> LogRecord:
    identity = RecordId(*NODE, "boot", 5, offset)
    return LogRecord(offset, start + 5 * S, identity, start, offset, **more)  # type: ignore[arg-type]


def work_off(
    node: PartitionOwner, log: list[LogRecord], limit: int = 1000, size_bytes: int = 1 << 30
) -> list[Batch]:
    """Plan, settle and commit until nothing is due; records are looked up in the log."""

    def union(task: WindowTask) -> list[LogRecord]:
        low, high = task.fetch or (0, -1)
        return [
            record
            for record in log
            if record.window_start_ns == task.window_start_ns
            and (record.offset in task.held or low <= record.offset <= high)
        ]

    batches = []
    while tasks := node.plan(limit, size_bytes):
        unions = {(task.node, task.window_start_ns): union(task) for task in tasks}
        batches.append(node.settle(tasks, unions))
        node.commit(batches[-1])
    return batches


def test_a_launch_stated_months_ago_owes_what_is_not_too_old_and_what_is_skipped_is_told() -> None:
    launched = START - 90 * DAY_NS
    node = owner(DAY)
    node.state_life(NODE, Lifetime(launched))
    log = [record(0, last=True)]
    node.read(log[0])
    decided = [d.window_start_ns for batch in work_off(node, log) for d in batch.decisions]
    assert decided[0] == START, "the live window does not wait behind those of the past"
    assert sorted(decided) == [*range(OPEN_FROM, START, W), START]
    assert DAY_NS <= START - OPEN_FROM <= DAY_NS + 2 * HOUR_NS
    assert node.take_skipped() == [Skipped(NODE, launched, OPEN_FROM, (OPEN_FROM - launched) // W)]
    assert node.take_skipped() == []


def test_what_lies_between_a_launch_and_the_first_record_is_charged_though_time_passes_in_between() -> None:
    node = owner(DAY)
    node.state_life(NODE, Lifetime(OPEN_FROM))
    log = [record(0, last=True)]
    node.read(log[0])
    tasks = node.plan()
    assert [task.window_start_ns for task in tasks] == [START]
    node.commit(node.settle(tasks, {(NODE, START): log}))
    node.mark(START + 3 * HOUR_NS, 1)
    decided = [d.window_start_ns for batch in work_off(node, log) for d in batch.decisions]
    assert sorted(decided)[: (START - OPEN_FROM) // W] == list(range(OPEN_FROM, START, W))
    assert node.take_skipped() == []


def test_what_a_node_whose_life_nobody_states_is_owed_and_is_too_old_by_now_is_told() -> None:
    """It fell silent, and a day of it is owed; whoever looks comes hours later."""
    rules = Rules(oldest_ns=2 * HOUR_NS)
    node, later = owner(rules), START + 10 * HOUR_NS
    log = [record(0, last=True, readable=True, keyframe=True, layout="layout")]
    node.read(log[0])
    work_off(node, log)
    node.mark(later, 1)
    decided = [d.window_start_ns for batch in work_off(node, log) for d in batch.decisions]
    kept_from = rules.open_from(later)
    assert min(decided) == kept_from
    assert node.take_skipped() == [Skipped(NODE, START, kept_from, (kept_from - START) // W - 1)]


@pytest.mark.parametrize("goodbye", [True, False])
def test_nothing_is_told_of_a_node_that_said_goodbye_or_of_which_more_than_is_owed_is_charged(
    goodbye: bool,
) -> None:
    rules = Rules(oldest_ns=2 * HOUR_NS, unstated_life_ns=10 * W)
    node = owner(rules)
    log = [record(0, last=True, readable=True, keyframe=True, layout="layout", goodbye=goodbye)]
    node.read(log[0])
    node.mark(START + HOUR_NS, 1)
    work_off(node, log)
    node.mark(START + 10 * HOUR_NS, 1)
    work_off(node, log)
    assert node.take_skipped() == []


def test_a_new_owner_does_not_open_again_what_was_given_up() -> None:
    progress = NodeProgress(NODE, {START: WindowRow(0, 1, 0, 0)}, START, START + 5 * S, OPEN_FROM)
    rows = {start: WindowRow(0, 0, alive_ns=W) for start in range(OPEN_FROM, START, W)}
    progress.rows.update(rows)
    node = owner(DAY, progress=[progress], lifetimes=[(NODE, Lifetime(START - 90 * DAY_NS))])
    node.mark(START + 6 * S, 0)
    assert node.plan() == []
    assert node.take_skipped() == []


def test_rows_that_are_too_old_to_be_restated_are_forgotten_but_for_the_last_keyframe() -> None:
    old = START - 9 * DAY_NS
    speaking = WindowRow(0, 1, 0, 0, Statement("layout", 0), alive_ns=W)
    rows = {old: speaking, old + W: WindowRow(0, 0, alive_ns=W), START - W: WindowRow(0, 0, alive_ns=W)}
    progress = NodeProgress(NODE, rows, START - W, START - W)
    node = owner(progress=[progress], lifetimes=[(NODE, Lifetime(old, START, START))])
    node.mark(START, 0)
    node.plan()
    assert sorted(node.nodes[NODE].rows.starts()) == [old, START - W]
    hours = {start - start % HOUR_NS for start in rows}
    assert expired(hours, node.nodes[NODE], node.open_from_ns) == set(), "its keyframe still speaks"
    assert expired(hours, None, node.open_from_ns) == {old - old % HOUR_NS}


def test_copies_of_a_record_that_is_held_are_not_held() -> None:
    node = owner()
    assert node.read(record(0)) is Reading.HELD
    for offset in range(1, 100):
        assert node.read(record(0)._replace(offset=offset)) is Reading.REPEATED
    assert node.held == 1
    assert node.acknowledgeable() is None


@pytest.mark.parametrize(
    "rules", [Rules(window_records=7), Rules(window_bytes=70)], ids=["by-count", "by-bytes"]
)
def test_a_window_that_never_closes_is_held_up_to_its_bounds_and_charged_as_refused(rules: Rules) -> None:
    node = owner(rules)
    log = [record(offset, size_bytes=10) for offset in range(50)]
    readings = [node.read(one) for one in log]
    assert readings == [Reading.HELD] * 8 + [Reading.WINDOW_FULL] * 42
    assert node.held == 8
    node.mark(START + 200 * S, 50)
    (batch, *_) = work_off(node, log)
    (decision, *_) = batch.decisions
    assert (decision.label, len(decision.inputs)) == (Label.REFUSED, 8)
    assert [one.offset for one in batch.refused] == [7]
    assert node.acknowledgeable() == 50
    late = record(50, size_bytes=10)
    assert node.read(late) is Reading.WINDOW_FULL, "a full window is not opened again"


def test_a_full_window_has_one_content_however_its_records_arrive() -> None:
    rules = Rules(window_records=3)
    log = [record(offset, last=offset == 1) for offset in range(6)]
    together, apart = owner(rules), owner(rules)
    for one in log:
        together.read(one)
    at_once = [d for batch in work_off(together, log) for d in batch.decisions]
    one_by_one = []
    for one in log:
        apart.read(one)
        one_by_one += [d for batch in work_off(apart, log) for d in batch.decisions]
    assert one_by_one[-1] == at_once[-1]
    assert len({d.revision for d in one_by_one}) == len(one_by_one)


def test_a_round_takes_no_more_bytes_than_it_may_and_at_least_one_window() -> None:
    node = owner()
    log = [record(offset, START + offset * W, last=True, size_bytes=100) for offset in range(10)]
    for one in log:
        node.read(one)
    assert [len(batch.decisions) for batch in work_off(node, log, size_bytes=250)] == [3, 3, 3, 1]
    again = owner()
    for one in log:
        again.read(one)
    assert [len(batch.decisions) for batch in work_off(again, log, size_bytes=1)] == [1] * 10


def test_a_spool_that_comes_late_restates_empty_windows_only_where_it_says_something_else() -> None:
    node = owner()
    before = record(0, last=True, keyframe=True, layout="eight")
    node.read(before)
    log = [before]
    work_off(node, log)
    end = START + 400 * W
    node.mark(end, 1)
    silent = sum(len(batch.decisions) for batch in work_off(node, log))
    assert silent > 300
    decided = []
    for i in range(1, 200):
        layout = "eight" if i < 100 else "seven"
        late = record(i, START + i * W, last=True, keyframe=True, layout=layout)._replace(append_ns=end)
        node.read(late)
        log.append(late)
        decided.append([d for batch in work_off(node, log) for d in batch.decisions])
    assert {len(one) for one in decided[:99]} == {1}
    assert len(decided[99]) == silent - 99
    assert {d.layout for d in decided[99]} == {"seven"}
    assert {len(one) for one in decided[100:]} == {1}


def test_an_hour_that_is_too_large_for_a_record_is_written_in_parts_and_comes_back_whole() -> None:
    def layout(i: int) -> NodeLayout:
        return NodeLayout(devices=[Device(f"GPU-{i}")], labels={"long": "x" * 1000})

    node = owner()
    node.read(record(0, last=True))
    rows = {
        (NODE, START + i * W): WindowRow(
            1, 1, i, i, Statement(layout(i // 2), i) if i % 3 else None, W, input_bytes=i
        )
        for i in range(360)
    }
    (hour,) = hours_to_write(node, Batch((), rows, (), ()))
    parts = list(within(20_000, hour))
    assert len(parts) > 8
    assert all(len(body) <= 20_000 for _, body in parts)
    assert len({part.hour_start_ns for part, _ in parts}) == len(parts)
    (found,) = loaded(part for part, _ in parts)
    assert found.rows == {start: row for (_, start), row in rows.items()}
    assert found.keys == {part.hour_start_ns for part, _ in parts}


def test_a_record_of_progress_that_counts_no_bytes_is_read() -> None:
    node = owner()
    node.read(record(0, last=True))
    (hour,) = hours_to_write(node, Batch((), {(NODE, START): WindowRow(0, 3, 0, 2)}, (), ()))
    (found,) = loaded([replace(hour, input_bytes=np.empty(0, np.int64))])
    assert found.rows == {START: WindowRow(0, 3, 0, 2)}


def test_a_generation_that_reaches_further_back_than_windows_are_kept_is_noticed_once() -> None:
    node = owner(DAY)
    node.read(record(0, last=True))
    assert not node.announce(Announcement(1, OPEN_FROM, START))
    assert node.announce(Announcement(2, OPEN_FROM - W, START))
    assert not node.announce(Announcement(2, OPEN_FROM - W, START))


def test_what_was_not_committed_is_offered_again_and_what_another_committed_is_noticed() -> None:
    node = owner()
    node.read(record(0, last=True))
    work_off(node, [record(0, last=True)])
    assert node.acknowledgeable() == 1
    assert node.acknowledgeable() is None
    assert node.goes_on_from(None)
    assert node.acknowledgeable() == 1
    assert not node.goes_on_from(2)
