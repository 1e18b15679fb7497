"""The processor's small pure parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuledger.attribution import Charges, NodeWindow, charge_windows
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records import ChargeSet, Device, NodeLayout, PriceBookVersion, PriceEntry, decode
from gpuledger.contract.revision import Revision
from gpuledger.contract.windows import HOUR_NS, WindowGrid
from gpuledger.pricing import Prices, Teams
from gpuledger.processor.charging import Configuration, charge, ranges
from gpuledger.processor.progress import hours_to_write, loaded, progress_key
from gpuledger.processor.protocol import (
    Announcement,
    Batch,
    Decision,
    Label,
    Lifetime,
    LogRecord,
    OffsetGap,
    PartitionOwner,
    Reading,
    Statement,
    WindowRow,
)
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.lifetimes import Lifetimes
from gpuledger.processor.window_inputs import NEAR_OFFSETS, coalesce

S = 1_000_000_000
W = 10 * S
START = 1_700_000_000 * S
NODE = NodeKey("c", "n")
LAYOUT = NodeLayout(devices=[Device("GPU-0", index=0)])


def owner(position: int = 0) -> PartitionOwner:
    return PartitionOwner(0, position, lambda cluster: WindowGrid(W))


def record(offset: int, start: int = START, sequence: int = 0, **more: object) -> LogRecord:
    identity = RecordId(*NODE, "boot", 5, sequence)
    return LogRecord(offset, START + 5 * S, identity, start, 0, **more)  # type: ignore[arg-type]


def test_offsets_become_runs() -> None:
    assert ranges([]) == []
    assert ranges([4, 5, 6, 9, 11, 12]) == [(4, 3), (9, 1), (11, 2)]


def test_near_ranges_are_fetched_in_one_go_and_far_ones_apart() -> None:
    far = 10 + NEAR_OFFSETS + 1
    assert list(coalesce([(far, far + 5), (0, 3), (2, 10)])) == [(0, 10), (far, far + 5)]


def test_progress_comes_back_as_it_was_written() -> None:
    node = owner()
    node.read(record(0, last=True))
    statement = Statement(LAYOUT, 7, goodbye=True, goodbye_append_ns=START + 9)
    rows = {
        (NODE, START): WindowRow(2, 3, 7, 9, statement, W - 1),
        (NODE, START + W): WindowRow(0, 0, alive_ns=0),
        (NODE, START + HOUR_NS): WindowRow(1, 0, alive_ns=-1),
    }
    hours = list(hours_to_write(node, Batch((), rows, (), ())))
    assert [progress_key(NODE, hour.hour_start_ns) for hour in hours] == [
        b"c/n/%d" % (START - START % HOUR_NS),
        b"c/n/%d" % (START - START % HOUR_NS + HOUR_NS),
    ]
    (found,) = loaded([hours[0], *hours])
    assert (found.node, found.through_ns) == (NODE, START + HOUR_NS)
    assert found.last_append_ns == START + 5 * S
    assert found.rows == {start: row for (_, start), row in rows.items()}


def test_a_missing_offset_stops_the_owner_and_a_repeated_one_does_not() -> None:
    node = owner(position=4)
    assert node.read(record(4)) is Reading.HELD
    assert node.read(record(4)) is Reading.REPEATED
    with pytest.raises(OffsetGap):
        node.read(record(6))
    node.skip_to(6)
    assert node.read(record(6, sequence=1)) is Reading.HELD


@pytest.mark.parametrize(
    ("start", "reading"),
    [
        (START + 70 * S, Reading.AHEAD_OF_TIME),
        (START - 9 * 86_400 * S, Reading.TOO_OLD),
        (START + 1, Reading.WRONG_GRID),
    ],
)
def test_record_of_no_possible_window_is_finished_at_once(start: int, reading: Reading) -> None:
    node = owner()
    assert node.read(record(0, start)) is reading
    assert node.acknowledgeable() == 1


def test_held_record_is_never_acknowledged_around() -> None:
    node = owner()
    node.read(record(0))
    node.pass_over(1)
    assert node.acknowledgeable() is None
    assert node.held == 1


def test_life_is_what_all_statements_cover() -> None:
    lives = Lifetimes().with_life(Lifetime(10, 30, 31, "a")).with_life(Lifetime(50, None, None, "b"))
    assert lives.alive(0, 100) == ((10, 30), (50, 100))
    assert lives.alive_ns(30, 50) == 0
    assert lives.next_launch(31) == 50
    assert lives.told_ns(40) == 31
    assert lives.with_life(Lifetime(10, None, None, "a")) == lives
    assert Lifetimes().alive_ns(0, 100) == -1


def test_greatest_generation_of_the_cluster_holds() -> None:
    generations = Generations()
    for announcement in (
        Announcement(1, 0, 100),
        Announcement(3, 50, 60, frozenset({"other"})),
        Announcement(2, 50, 100),
    ):
        generations = generations.with_announcement(announcement)
    assert [generations.of("c", at) for at in (0, 50, 99, 100)] == [1, 2, 2, 0]
    assert generations.of("other", 55) == 3


def test_window_that_the_core_fails_on_is_refused_and_spoils_no_other() -> None:
    def core(windows: Sequence[NodeWindow], prices: Prices, teams: Teams) -> list[Charges]:
        if any(w.window_start_ns == START + W and w.state != "refused" for w in windows):
            raise ZeroDivisionError
        return charge_windows(windows, prices, teams)

    alive = ((START, START + W),)
    decisions = [
        (0, Decision(NODE, START + i * W, Label.UNOBSERVED, Revision(0, 0, 1, 1), alive, (), LAYOUT))
        for i in range(3)
    ]
    outcomes = charge(decisions, {}, lambda cluster: W, Configuration(Prices(), Teams(), {}), core)
    assert [outcome.record.state for outcome in outcomes] == ["unobserved", "refused", "unobserved"]
    assert [isinstance(outcome.error, BadRecord) for outcome in outcomes] == [False, True, False]


def test_version_that_is_not_known_is_no_fault_of_the_records() -> None:
    def core(windows: Sequence[NodeWindow], prices: Prices, teams: Teams) -> list[Charges]:
        raise Refused("version 9")

    decision = Decision(NODE, START, Label.ENDED, Revision(0, 0, 1, 1), ())
    with pytest.raises(Refused):
        charge([(0, decision)], {}, lambda cluster: W, Configuration(Prices(), Teams(), {}), core)


def test_window_that_only_a_mended_copy_speaks_of_is_closed_after_the_end_of_the_node() -> None:
    node = owner()
    node.state_life(NODE, Lifetime(START, START + W, START + 2 * W))
    node.read(record(0, last=True))
    node.commit(node.settle(node.plan(), {(NODE, START): [record(0, last=True)]}))
    node.read(record(1, START + 5 * W, sequence=1, mend=1)._replace(append_ns=START + 6 * W))
    assert node.plan() == []
    node.mark(START + 40 * W, 2)
    assert [task.window_start_ns for task in node.plan()] == [START + 5 * W]


def test_charges_that_fit_into_no_record_are_refused_and_spoil_no_other() -> None:
    """A price beyond all reason makes more money of a window than a long holds."""
    book = PriceBookVersion(1, START, entries=[PriceEntry("a", "gpu", (1 << 63) - 1, "USD")])
    dear = NodeLayout(gpu_count=1000, devices=[Device("GPU-0", index=0)])
    decisions = [
        (0, Decision(NODE, start, Label.UNOBSERVED, Revision(0, 0, 1, 1), ((start, start + W),), (), layout))
        for start, layout in ((START, LAYOUT), (START + W, dear), (START + 2 * W, LAYOUT))
    ]
    configuration = Configuration(Prices([book]), Teams(), {})
    outcomes = charge(decisions, {}, lambda cluster: W, configuration)
    assert [outcome.record.state for outcome in outcomes] == ["unobserved", "refused", "unobserved"]
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert [decode(ChargeSet, outcome.body).state for outcome in outcomes] == [
        outcome.record.state for outcome in outcomes
    ]
