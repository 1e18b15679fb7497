"""A window that is made coarser while it waits says what it would had it been coarse from the beginning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gpuledger.agent.coarser.waiting import Waiting, whole_windows
from gpuledger.agent.rules import EVENT_GRACE_NS, HOLLOW, TALLY
from gpuledger.agent.spool import Entry, NodeQueue, Pressure
from gpuledger.attribution import charge_windows
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, SampleBatch, decode, encode
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.agent import Bench, S, StatedProcesses, event, joined, uuid
from tests.support.agent_bench import Bench as AgentBench
from tests.support.agent_charged import charges_of, starts_of, window_of
from tests.support.charging import prices
from tests.support.coarser import all_of, entry_of, made_coarser, simulated, told

SECONDS = 32
SYNC = Operation.SYNCHRONIZE_STREAM


def calls(entries: list[Entry] | tuple[Entry, ...]) -> int:
    return sum(int(body.count.sum()) for _, body in told(entries) if isinstance(body, EventBatch))


def test_tallied_while_it_waits_it_is_charged_as_if_it_had_been_tallied_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = simulated(SECONDS)
    monkeypatch.setattr(NodeQueue, "pressure", Pressure.TALLY)
    bench = AgentBench(tmp_path)
    bench.run(SECONDS, tick_ns=S)
    at_once = told(all_of(bench.queue))
    later = told(made_coarser(raw, TALLY))
    assert starts_of(later) == starts_of(at_once)
    assert len(starts_of(later)) == 3
    for start in starts_of(later):
        mine, others = charges_of(later, start), charges_of(at_once, start)
        assert mine.conservation_error_nano == 0
        for row, other in zip(mine.rows(), others.rows(), strict=True):
            different = {
                name for name, value in row.values.items() if not same(value, other.values[name])
            } - {"revision", "input_count", "input_digest"}
            assert different == set()


def same(one: object, other: object) -> bool:
    both_nan = one != one and other != other
    return bool(one == other) or both_nan


@pytest.mark.parametrize("coarseness", [TALLY, HOLLOW])
def test_identity_place_and_times_stay_and_the_header_says_how_coarse_it_is(coarseness: int) -> None:
    raw = simulated(SECONDS)
    coarse = made_coarser(raw, coarseness)
    changed = 0
    for before, after in zip(raw, coarse, strict=True):
        assert (after.record, after.key, after.headers) == (before.record, before.key, before.headers)
        if after is before:
            continue
        changed += 1
        (_, old), (_, new) = told([before, after])
        assert dataclasses.replace(new.header, coarsening=0, lost_user=old.header.lost_user) == old.header
        if isinstance(new, EventBatch):
            assert new.header.coarsening == coarseness
            assert set(new.time_ns.tolist()) <= set(old.time_ns.tolist())
    assert changed >= 3
    assert sum(map(len, (e.body for e in coarse))) < sum(map(len, (e.body for e in raw))) / 2


def test_a_tally_has_every_call() -> None:
    raw = simulated(SECONDS)
    assert calls(made_coarser(raw, TALLY)) == calls(raw) > 0


def test_of_a_frame_the_header_says_what_was_taken_out_and_nobody_says_how_much_was_used() -> None:
    raw = simulated(SECONDS)
    for waiting in (raw, made_coarser(raw, TALLY)):
        records, whole = told(made_coarser(waiting, HOLLOW)), told(raw)
        for start in starts_of(whole):
            taken_out = sum(
                int(body.count.sum())
                for headers, body in whole
                if headers.window_start_ns == start and isinstance(body, EventBatch)
            )
            charges = charges_of(records, start)
            assert charges.conservation_error_nano == 0
            for row in charges.rows():
                assert row.values["lost_events"] == taken_out > 0
                assert Flag(row.values["flags"]) & Flag.EVENTS_LOST
                assert row.values["launches"] == 0
                if row.values["consumer"]:
                    assert row.values["evidence"] == "none"


def test_a_window_behind_one_that_was_emptied_has_lost_nothing() -> None:
    raw = simulated(SECONDS)
    first, *others = starts_of(told(raw))
    of_first = [e for e in raw if e.record == "NodeLifetime" or told([e])[0][0].window_start_ns == first]
    records = told([*made_coarser(of_first, HOLLOW), *raw[len(of_first) :]])
    assert {row.values["lost_events"] for row in charges_of(records, first).rows()} != {0}
    for start in others:
        assert {row.values["lost_events"] for row in charges_of(records, start).rows()} == {0}


FILE = (1, 42)


def unfinished_work() -> list[Entry]:
    """Two windows: a process waits for its work in the second only, another, on its own device, never; a
    third works in both. The calls of all are seen."""
    reader = StatedProcesses()
    reader.files = {pid: frozenset({FILE}) for pid in (1, 2, 3)}
    bench = Bench(reader=reader, processes=(1, 2, 3), max_events=7)
    bench.table.witness({FILE})
    parts = bench.advance(EVENT_GRACE_NS)
    begun = [event(S, process=0, duration_ns=10), event(2 * S, process=1, device=1, duration_ns=10)]
    for second in range(3, 20):
        begun.append(event(second * S, process=2, duration_ns=10))
        begun.append(event(second * S + S // 4, SYNC, process=2, duration_ns=S // 5))
    begun.append(event(13 * S, SYNC, process=0, duration_ns=S))
    bench.cutter.add_events(joined(begun))
    parts += bench.advance(20 * S + EVENT_GRACE_NS)
    return [entry_of(part) for part in parts]


def used_by_device(entries: list[Entry], start_ns: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in charges_of(told(entries), start_ns).rows():
        found[row.values["device"]] = found.get(row.values["device"], 0) + row.values["used_ns"]
    return found


def test_work_that_goes_on_over_records_and_windows_stays_outstanding_as_long() -> None:
    raw = unfinished_work()
    coarse = made_coarser(raw, TALLY)
    assert sum(body.header.coarsening for _, body in told(coarse)) > 4
    for start, untold in ((0, 2 * S), (10 * S, 0)):
        before, after = used_by_device(raw, start), used_by_device(coarse, start)
        assert after.keys() == before.keys() == {uuid(0), uuid(1)}
        assert after[uuid(1)] == pytest.approx(10 * S - untold, abs=100), "who never waits, and calls no more"
        for device, used_ns in before.items():
            assert after[device] == pytest.approx(used_ns, abs=100)
            assert used_ns > 0


def test_a_window_is_charged_alike_whatever_other_windows_are_charged_beside_it() -> None:
    raw = unfinished_work()
    coarse = told(made_coarser(raw, TALLY))
    window, other = window_of(told(raw), 10 * S), window_of(coarse, 0)
    alone, beside = (charge_windows(windows, prices(), Teams())[0] for windows in ([window], [window, other]))
    for row, other_row in zip(alone.rows(), beside.rows(), strict=True):
        different = {name for name, value in row.values.items() if not same(value, other_row.values[name])}
        assert different == set()
    assert used_by_device(raw, 10 * S)[uuid(1)] == pytest.approx(10 * S, abs=100), "it works on"


def test_what_the_kernel_tallied_stays_and_says_so() -> None:
    raw = list(unfinished_work())
    (number,) = [
        i for i, (h, b) in enumerate(told(raw)) if isinstance(b, EventBatch) and h.window_start_ns == 10 * S
    ][:1]
    batch = decode(EventBatch, raw[number].body)
    rows = np.arange(len(batch.time_ns))
    batch.count = np.where(rows == 0, 5, batch.count)
    batch.span_ns = np.where(rows == 0, 9, batch.span_ns)
    batch.thread = np.where(rows == 0, -1, batch.thread)
    whose = int(batch.process[0])
    batch.tallied_process, batch.tallied_by, batch.tallied_since_ns = (
        np.array([value]) for value in (whose, 1, 123)
    )
    raw[number] = raw[number]._replace(body=encode(batch))
    coarse = made_coarser(raw, TALLY)
    assert calls(coarse) == calls(raw)
    after = decode(EventBatch, coarse[number].body)
    told_by = {
        (after.processes[int(p)].pid, int(by), int(at))
        for p, by, at in zip(after.tallied_process, after.tallied_by, after.tallied_since_ns, strict=True)
    }
    assert (batch.processes[whose].pid, 1, 123) in told_by
    assert {(by, at) for _, by, at in told_by} == {(1, 123), (2, 10 * S)}


def windows_of(entries: list[Entry]) -> list[int]:
    found = whole_windows([Waiting.of(entry, 0, 0) for entry in entries])
    return [window[0].headers.window_start_ns for window in found]


def test_only_windows_that_are_there_from_their_first_part_to_their_last_are_touched() -> None:
    raw = unfinished_work()
    numbers = [h.window_start_ns for h, _ in told(raw)]
    assert windows_of(raw) == [0, 10 * S]
    assert windows_of(raw[1:]) == [10 * S], "the first part is gone"
    assert windows_of(raw[: numbers.count(0) - 1]) == [], "the last part is not there yet"
    middle = numbers.index(10 * S) + 1
    assert windows_of(raw[:middle] + raw[middle + 1 :]) == [0], "one between is missing"


def test_a_window_with_a_record_that_can_not_be_read_is_refused_whole() -> None:
    raw = list(simulated(SECONDS))
    number = next(i for i, e in enumerate(raw) if e.record == "EventBatch")
    raw[number] = raw[number]._replace(body=b"\xff" * 50)
    with pytest.raises(BadRecord):
        made_coarser(raw, TALLY)


def test_who_ended_is_still_told_when_samples_are_taken_out() -> None:
    raw = unfinished_work()
    number = max(i for i, (h, _) in enumerate(told(raw)) if h.last)
    last = decode(SampleBatch, raw[number].body)
    (who,) = decode(EventBatch, next(e for e in raw if e.record == "EventBatch").body).processes[:1]
    last.processes = [dataclasses.replace(who, ended_ns=15 * S)]
    raw[number] = raw[number]._replace(body=encode(last))
    after = decode(SampleBatch, made_coarser(raw, HOLLOW)[number].body)
    assert [(process.pid, process.ended_ns) for process in after.processes] == [(who.pid, 15 * S)]
