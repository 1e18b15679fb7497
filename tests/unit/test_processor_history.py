"""A new owner that knows the end of gpu.progress charges what is new; what needs more waits for it."""

from __future__ import annotations

from gpuledger.contract.records import NodeLayout
from gpuledger.contract.windows import DAY_NS, HOUR_NS
from gpuledger.processor.progress import hours_to_write, written
from gpuledger.processor.progress_writer import ProgressWriter, within
from gpuledger.processor.protocol import (
    Announcement,
    Batch,
    History,
    Lifetime,
    NodeProgress,
    Reading,
    Rules,
    Statement,
    WindowRow,
    Written,
)
from gpuledger.processor.protocol.rows import Rows
from tests.support.owning import (
    HOUR,
    NODE,
    OFFSETS,
    OTHER,
    START,
    S,
    W,
    hour_of,
    owner,
    record,
    row,
    speaking,
    taken,
    work_off,
)


def test_a_new_window_is_charged_and_acknowledged_before_older_rows_are_there() -> None:
    node = owner(taken(hour_of(HOUR)))
    log = [record(OFFSETS, START)]
    assert node.read(log[0]) is Reading.HELD
    assert work_off(node, log) == [START]
    assert node.acknowledgeable() == OFFSETS + 1
    (found,) = hours_to_write(node, Batch((), {(NODE, START): speaking(OFFSETS)}, (), ()))
    assert found.window_start_ns.size == 61, "the hour is written with all windows that it had"
    assert found.first_window_ns is None, "which one that is, older rows tell"


def test_a_late_record_waits_for_the_row_of_its_window_and_is_acknowledged_in_order() -> None:
    recent, late = hour_of(HOUR), HOUR - 3 * W
    node = owner(taken(recent))
    log = [record(5000 - 3, late), record(OFFSETS, late), record(OFFSETS + 1, START)]
    for one in log[1:]:
        assert node.read(one) is Reading.HELD
    assert work_off(node, log) == [START]
    assert node.acknowledgeable() is None, "the late one comes first"
    assert node.complete(taken(recent, hour_of(HOUR - HOUR_NS)).nodes()) == []
    (task,) = node.plan()
    assert task == (NODE, late, (OFFSETS,), (5000 - 3, 5000 - 3)), "with what it was charged from before"
    assert work_off(node, log) == [late]
    assert node.acknowledgeable() == OFFSETS + 2


def test_a_late_record_of_the_hours_that_are_there_does_not_wait() -> None:
    node = owner(taken(hour_of(HOUR), hour_of(HOUR - HOUR_NS)))
    late = HOUR - 300 * W
    log = [record(5000 - 300, late), record(OFFSETS, late)]
    node.read(log[1])
    assert work_off(node, log) == [late]


def test_what_would_speak_from_an_earlier_keyframe_than_any_that_is_there_waits() -> None:
    rows = hour_of(HOUR)
    for start in range(HOUR, HOUR + 3 * W, W):
        rows[start] = row(rows[start].lowest)
    older = hour_of(HOUR - HOUR_NS)
    older[HOUR - W] = row(4999, Statement(NodeLayout(instance_type="earlier"), 4999))
    node = owner(taken(rows))
    log = [record(5001, HOUR + W, keyframe=False), record(OFFSETS, HOUR + W, keyframe=False)]
    node.read(log[1])
    assert work_off(node, log) == []
    node.complete(taken(rows, older).nodes())
    tasks = node.plan()
    batch = node.settle(tasks, {(NODE, HOUR + W): log})
    assert [decision.layout for decision in batch.decisions] == [NodeLayout(instance_type="earlier")]


def test_of_a_node_whose_last_windows_are_not_there_everything_waits() -> None:
    for known in (History(), taken({HOUR: row(1)}), taken(hour_of(HOUR - HOUR_NS))):
        node = owner(known)
        log = [record(OFFSETS, START), record(OFFSETS + 1, START + W)]
        for one in log:
            node.read(one)
        node.mark(START + 100 * W, OFFSETS + 2)
        assert work_off(node, log) == []
        node.complete(taken(hour_of(HOUR)).nodes())
        assert work_off(node, log)[:2] == [START, START + W]


def test_a_node_that_nobody_knew_is_charged_once_all_is_there() -> None:
    node = owner(taken(hour_of(HOUR)))
    log = [record(OFFSETS, START, OTHER)]
    node.read(log[0])
    assert work_off(node, log) == []
    node.complete(taken(hour_of(HOUR)).nodes())
    assert work_off(node, log) == [START]


def test_no_window_is_a_gap_because_its_row_was_not_there_yet() -> None:
    hours = [hour_of(HOUR - n * HOUR_NS) for n in range(5)]
    del hours[3][HOUR - 2 * HOUR_NS - 7 * W]
    node = owner(taken(hours[0]), lifetimes=[(NODE, Lifetime(HOUR - 4 * HOUR_NS))])
    assert work_off(node, []) == []
    node.complete(taken(*hours).nodes())
    assert node.plan() == [(NODE, HOUR - 2 * HOUR_NS - 7 * W, (), None)]


def test_a_generation_that_is_announced_meanwhile_restates_older_windows_too() -> None:
    hours = [hour_of(HOUR), hour_of(HOUR - HOUR_NS), hour_of(HOUR - 2 * HOUR_NS)]
    node = owner(taken(hours[0]))
    first = HOUR - 2 * HOUR_NS + 100 * W
    node.announce(Announcement(1, first, START))
    log = [record(one.lowest, start) for rows in hours for start, one in rows.items()]
    assert work_off(node, log) == list(range(HOUR, START, W))
    node.complete(taken(*hours).nodes())
    assert sorted(work_off(node, log)) == list(range(first, HOUR, W))
    assert {r.generation for s, r in node.nodes[NODE].rows.items() if s >= first} == {1}


def test_an_end_that_is_told_meanwhile_withdraws_older_windows_too() -> None:
    hours = [hour_of(HOUR), hour_of(HOUR - HOUR_NS)]
    node = owner(taken(hours[0]), lifetimes=[(NODE, Lifetime(HOUR - HOUR_NS))])
    end = HOUR - 10 * W
    node.state_life(NODE, Lifetime(HOUR - HOUR_NS, end, START))
    log = [record(one.lowest, start) for rows in hours for start, one in rows.items()]
    assert work_off(node, log) == list(range(HOUR, START, W))
    node.complete(taken(*hours).nodes())
    assert work_off(node, log) == list(range(end, HOUR, W))


def test_a_record_of_a_window_that_had_been_given_up_is_too_old_once_that_is_known() -> None:
    node = owner(History())
    late = record(OFFSETS, START - 8 * DAY_NS)
    assert node.read(late) is Reading.HELD
    given_up = START - DAY_NS
    assert node.complete(taken(hour_of(HOUR), opened_from_ns=given_up).nodes()) == [late]
    assert work_off(node, [late]) == []
    assert node.acknowledgeable() == OFFSETS + 1


def test_nothing_is_given_up_by_the_time_before_what_is_due_of_it_is_known() -> None:
    rules = Rules(oldest_ns=2 * HOUR_NS)
    old = hour_of(HOUR - 2 * HOUR_NS)
    history = taken(hour_of(HOUR), hour_of(HOUR - HOUR_NS), old)
    node = owner(taken(hour_of(HOUR)), rules, announcements=[Announcement(1, min(old), HOUR)])
    node.mark(HOUR + 2 * HOUR_NS, OFFSETS)
    node.plan()
    assert node.open_from_ns == min(old)
    node.complete(history.nodes())
    assert min(old) in {task.window_start_ns for task in node.plan()}
    assert node.open_from_ns > min(old)


def test_what_is_due_when_all_is_known_is_done_however_far_time_passes_before_it() -> None:
    rules = Rules(oldest_ns=3 * HOUR_NS)
    old = HOUR - 2 * HOUR_NS
    hours = [hour_of(HOUR), hour_of(HOUR - HOUR_NS), hour_of(old)]
    del hours[2][old + W]
    end = old + 2 * W + 3 * S
    lives = [(NODE, Lifetime(old, end, START))]
    node = owner(taken(hours[0]), rules, lives)
    log = [record(one.lowest, start) for rows in hours for start, one in rows.items()]
    work_off(node, log)
    node.complete(taken(*hours).nodes())
    node.mark(HOUR + 10 * HOUR_NS, OFFSETS)
    assert node.plan(limit=1)[0].window_start_ns == old + W, "a gap"
    assert sorted(work_off(node, log))[:3] == [old + W, old + 2 * W, old + 3 * W]
    assert node.nodes[NODE].rows.get(old + 2 * W) is None, "and then it is given up"
    assert node.take_skipped() == []


def test_what_a_due_window_of_a_long_dead_node_is_computed_from_stays_in_gpu_progress() -> None:
    old = HOUR - 8 * DAY_NS + 2 * HOUR_NS
    history = list(taken({start: speaking(7) for start in range(old, old + 3 * W, W)}).nodes())
    node = owner(History(), lifetimes=[(NODE, Lifetime(old, old + 3 * W, old + 4 * W))])
    writer = ProgressWriter()
    writer.know(history)
    node.complete(history)
    node.announce(Announcement(1, old, old + 3 * W))
    node.mark(START + 10 * HOUR_NS, OFFSETS)
    nothing = Batch((), {}, (), ())
    node.plan()
    assert list(writer.records(node, nothing, None)) == []  # type: ignore[arg-type]


def test_an_hour_in_parts_counts_once_its_first_part_is_there() -> None:
    node = owner(History())
    node.complete([])
    log = [record(OFFSETS, HOUR)]
    node.read(log[0])
    work_off(node, log)

    def parts(rows: dict[int, WindowRow]) -> list[Written]:
        (hour,) = hours_to_write(node, Batch((), {(NODE, start): one for start, one in rows.items()}, (), ()))
        return [written(part) for part, _ in within(300, hour)]

    before = parts({start: row(7) for start in hour_of(HOUR)})
    after = parts(hour_of(HOUR))
    assert min(len(before), len(after)) > 2
    history = History()
    for part in after[:0:-1]:
        history.take(part)
    assert list(history.recent()) == []
    history.take(after[0])
    for part in reversed(before):
        history.take(part)
    (found,) = history.recent()
    assert found.rows == hour_of(HOUR)
    (all_of_it,) = history.nodes()
    assert all_of_it.hours[0].unpack() == hour_of(HOUR)
    assert all_of_it.keys == {part.start_ns for part in (*before, *after)}


def test_nothing_of_gpu_progress_is_deleted_before_all_of_it_is_known() -> None:
    node = owner(taken(hour_of(HOUR)))
    writer = ProgressWriter()
    old = START - 9 * DAY_NS
    older = [hour_of(old - old % HOUR_NS - n * HOUR_NS) for n in range(2)]
    history = list(taken(hour_of(HOUR), *older).nodes())
    writer.know(history)
    node.mark(START + HOUR_NS, OFFSETS)
    nothing = Batch((), {}, (), ())
    assert list(writer.records(node, nothing, None)) == []  # type: ignore[arg-type]
    node.complete(history)
    node.plan()
    deleted = [key for key, _ in writer.records(node, nothing, None)]  # type: ignore[arg-type]
    assert deleted == [b"c/n/%d" % min(older[1])], "the last keyframe of the other one still speaks"


def test_what_is_taken_from_records_is_what_is_loaded_from_them() -> None:
    rows = {
        **hour_of(HOUR),
        HOUR + 5 * W: WindowRow(3, 0, alive_ns=W),
        HOUR + 9 * W: row(9, Statement(None, goodbye=True, goodbye_append_ns=START), input_bytes=7),
        HOUR + 11 * W: row(11, alive_ns=W - 1),
    }
    del rows[HOUR + 20 * W]
    node = owner(History())
    node.complete([])
    log = [record(OFFSETS, HOUR)]
    node.read(log[0])
    (hour,) = hours_to_write(node, Batch((), {(NODE, start): one for start, one in rows.items()}, (), ()))
    packed = written(hour).rows
    assert packed is not None
    assert packed.unpack() == rows
    filled, added = Rows(), Rows()
    filled.fill(rows)
    added.add_older([packed])
    assert dict(added.items()) == dict(filled.items())
    assert added.newest_inputs == filled.newest_inputs
    assert list(added.speaking_behind(0)) == list(filled.speaking_behind(0))
    assert NodeProgress(NODE, rows, 0).since_ns is None
