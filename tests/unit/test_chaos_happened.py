"""What a chaos run says of its faults: which came about, and in how many seeds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpuledger.agent.spool import Entry, Journal
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey, RecordId
from tests.chaos import happened
from tests.chaos.doings import records_of
from tests.chaos.faults import KINDS, PROCESSES
from tests.chaos.truth import Arrived, Ledger
from tests.support.charge_sets import WINDOW_NS, charge_set, recent_window_ns

START = recent_window_ns()
NONE = Ledger({}, {}, [])


def record(epoch: int, sequence: int, at_ns: int = START, window: int = 0) -> Arrived:
    identity = RecordId("c", "n1", "boot", epoch, sequence)
    start = START + window * WINDOW_NS
    return Arrived(RecordHeaders(identity, Kind.HOLDINGS, start, WINDOW_NS, sequence, False), at_ns)


@pytest.mark.parametrize("family", sorted(PROCESSES))
def test_every_process_is_killed_and_frozen(family: str) -> None:
    assert {kind.begin for kind in KINDS[family]} >= {"kill", "freeze"}


def test_lives_one_behind_the_other_do_not_overlap_and_two_at_once_do() -> None:
    after = [record(1, 0), record(1, 1), record(2, 0), record(2, 1)]
    beside = [record(1, 0), record(2, 0), record(1, 1), record(2, 1)]
    again = [*after, record(1, 1)]
    for arrived, overlaps in ((after, 0), (beside, 2), (again, 0)):
        found = happened.came(arrived, NONE, ["n1"], [])
        assert (found[happened.OVERLAP], found[happened.SHARED]) == (overlaps, 1)
    assert happened.came(again, NONE, ["n1"], [])[happened.AGAIN] == 1
    assert not +happened.came(beside, NONE, ["n2"], [])


def test_records_of_clocks_an_hour_off_are_counted_by_when_they_arrived() -> None:
    windows = (360, 7, 6, 0, -360)
    arrived = [record(1, sequence, window=window) for sequence, window in enumerate(windows)]
    found = happened.came(arrived, NONE, ["n1"], [])
    assert (found[happened.AHEAD], found[happened.PAST]) == (2, 1)


def test_a_record_behind_the_charge_of_its_window_is_late() -> None:
    charges = charge_set(START, node="n1")
    told = Ledger({}, {}, [(START + 5, charges), (START + 9, charges)])
    node = NodeKey(charges.cluster, charges.node)
    ids = [RecordId(node.cluster, node.node, "boot", 1, sequence) for sequence in range(3)]
    arrived = [
        Arrived(RecordHeaders(one, Kind.HOLDINGS, START, WINDOW_NS, one.sequence, False), at_ns)
        for one, at_ns in zip(ids, (START + 1, START + 5, START + 6), strict=True)
    ]
    assert happened.came(arrived, told, ["n1"], [])[happened.LATE] == 1


def test_what_was_in_a_spool_and_never_came_is_lost(tmp_path: Path) -> None:
    first, second = record(1, 0), record(1, 1)
    journal = Journal(tmp_path, 1 << 20)
    for one in (first, second):
        journal.append(Entry("Holdings", b"c/n1", b"body", tuple(one.headers.to_kafka())))
    journal.append(Entry("NodeLifetime", b"c/n1", b"body"))
    journal.close()
    spooled = records_of(tmp_path)
    assert spooled == {first.headers.id, second.headers.id}
    assert not records_of(tmp_path / "none")
    assert happened.came([first], NONE, ["n1"], spooled)[happened.LOST] == 1


def test_what_never_came_about_is_counted_as_none(tmp_path: Path) -> None:
    log = tmp_path / "sink.log"
    log.write_text("Code: 243. NOT_ENOUGH_SPACE\nNOT_ENOUGH_SPACE\n")
    told = happened.said([log, tmp_path / "no-such.log"])
    assert told["inserts refused for want of disk"] == 2
    found = happened.in_seeds([Counter({"kill worker": 3}), Counter({"kill worker": 1}) + told])
    assert (found["kill worker"], found["inserts refused for want of disk"], found["twin node"]) == (2, 1, 0)
    assert found.keys() == happened.named()
