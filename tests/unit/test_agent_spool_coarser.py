"""A spool that fills makes the oldest that waits coarser, and loses, repeats and reorders nothing."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from gpuledger.agent import metrics
from gpuledger.agent.coarser import CoarsenerThread, SpoolCoarsener
from gpuledger.agent.rules import HOLLOW, TALLY
from gpuledger.agent.spool import Entry, Pressure
from gpuledger.contract.records import EventBatch
from tests.support.coarser import (
    BOUND,
    all_of,
    coarseness_of,
    fill,
    made_coarser,
    opened,
    simulated,
    told,
    work,
)
from tests.support.waiting import until

SECONDS = 102  # ten windows of 73 kB each, which is more than half of the bound
LONG_SECONDS = 202
SMALL_BOUND = 350_000  # a window is just less than the quarter up to which a segment grows
UNCOARSE = 3  # windows at the end that are in memory, or in the segment that is written


def identities(entries: list[Entry] | tuple[Entry, ...]) -> list[tuple[str, tuple[tuple[str, bytes], ...]]]:
    return [(entry.record, entry.headers) for entry in entries]


def test_the_oldest_become_coarser_until_half_of_the_bound_is_free_and_the_newest_stay(
    tmp_path: Path,
) -> None:
    raw = simulated(SECONDS)
    queue = opened(tmp_path)
    fill(queue, raw)
    assert queue.filled_ratio > 0.65
    assert work(queue) > 10
    assert 0.4 < queue.filled_ratio < 0.5
    assert queue.pressure == Pressure.NONE
    found = all_of(queue)
    assert identities(found) == identities(raw)
    levels = list(coarseness_of(found).values())
    assert levels == sorted(levels, reverse=True), "the oldest first"
    assert set(levels) == {TALLY, 0}
    tallied = levels.count(TALLY)
    assert 2 <= tallied <= len(levels) - UNCOARSE
    coarse = made_coarser(raw, TALLY)
    assert all(one in (was, made) for one, was, made in zip(found, raw, coarse, strict=True))


def test_nothing_becomes_coarser_below_half_of_the_bound(tmp_path: Path) -> None:
    queue = opened(tmp_path, 2 * BOUND)
    fill(queue, simulated(SECONDS))
    assert work(queue) == 0
    assert all_of(queue) == list(simulated(SECONDS))


def test_only_when_all_is_tallied_the_oldest_are_reduced_to_their_frames(tmp_path: Path) -> None:
    raw = simulated(LONG_SECONDS)
    queue = opened(tmp_path, SMALL_BOUND)
    for entry in raw:
        assert queue.append(entry)
        work(queue)
    found = all_of(queue)
    assert identities(found) == identities(raw)
    levels = list(coarseness_of(found).values())
    assert levels == sorted(levels, reverse=True)
    assert set(levels) == {0, TALLY, HOLLOW}
    lost = sum(body.header.lost_user for headers, body in told(found) if headers.last)
    calls, kept = (
        sum(int(body.count.sum()) for _, body in told(entries) if isinstance(body, EventBatch))
        for entries in (raw, found)
    )
    assert lost == calls - kept > 0


def test_what_was_handed_out_stays_as_it_is_in_this_life_and_the_next(tmp_path: Path) -> None:
    raw = simulated(SECONDS)
    queue = opened(tmp_path)
    fill(queue, raw)
    handed = []
    for _ in range(20):
        ticket = queue.take(0)
        assert ticket is not None
        handed.append(ticket.entry)
    queue.rewind()
    assert work(queue) > 0
    queue.close()
    queue = opened(tmp_path)
    work(queue)
    found = all_of(queue)
    assert found[: len(handed)] == handed == list(raw[: len(handed)])
    assert identities(found) == identities(raw)
    assert TALLY in coarseness_of(found).values()


def test_while_kafka_takes_it_nothing_becomes_coarser(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    raw = simulated(SECONDS)
    fill(queue, raw)
    coarsener, found = SpoolCoarsener(queue), []
    for _ in range(12):
        ticket = queue.take(0)
        assert ticket is not None
        found.append(ticket.entry)
        queue.acknowledge(ticket)
        if len(found) > 1:
            assert not coarsener.step()
        else:
            coarsener._undelivered = queue.undelivered_bytes + 1
    assert found + all_of(queue) == list(raw)


def test_a_segment_that_is_sent_while_it_becomes_coarser_goes_as_it_was(tmp_path: Path) -> None:
    raw = simulated(SECONDS)
    queue = opened(tmp_path)
    fill(queue, raw)
    coarsener = SpoolCoarsener(queue)
    for _ in range(5):
        assert coarsener.step()
    assert list(tmp_path.glob("*.coarser"))
    found = all_of(queue)
    while coarsener.step():
        pass
    assert found == list(raw)
    assert not list(tmp_path.glob("*.coarser"))


@pytest.mark.parametrize("call", ["pwrite", "fsync", "open", "replace"])
def test_a_disk_that_fails_leaves_what_waits_as_it_is_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    raw = simulated(SECONDS)
    queue = opened(tmp_path)
    fill(queue, raw)
    coarsener = SpoolCoarsener(queue)
    before = queue.filled_ratio

    def fails(*_: object, **__: object) -> int:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        while coarsener.step():
            pass
        assert queue.filled_ratio == before
    assert not list(tmp_path.glob("*.coarser"))
    looks = 0
    while queue.filled_ratio >= before and looks < 1000:
        coarsener.step()
        looks += 1
    assert queue.filled_ratio < before
    assert identities(all_of(queue)) == identities(raw)


def test_what_it_is_written_anew_to_counts_as_part_of_the_bound(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    fill(queue, simulated(SECONDS))
    coarsener, most = SpoolCoarsener(queue), 0
    while coarsener.step():
        on_disk = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert on_disk <= queue.waiting_bytes + 100, "beside the small files"
        most = max(most, on_disk)
    assert most <= BOUND


def test_when_even_frames_have_no_room_the_newest_is_refused_and_counted(tmp_path: Path) -> None:
    queue = opened(tmp_path, SMALL_BOUND)
    raw = simulated(SECONDS)
    offered, taken = 0, []
    for entry in itertools.chain.from_iterable(itertools.repeat(raw, 100)):
        offered += 1
        if queue.append(entry):
            taken.append(entry)
        work(queue)
        if queue.refused > 5:
            break
    assert queue.refused == offered - len(taken) == 6
    assert queue.filled_ratio <= 1.0
    assert identities(all_of(queue)) == identities(taken)


def test_a_damaged_segment_stays_as_it_is(tmp_path: Path) -> None:
    raw = simulated(SECONDS)
    queue = opened(tmp_path)
    fill(queue, raw)
    first = min(tmp_path.glob("*.segment"))
    with first.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\xff\xff\xff")
    damaged = first.read_bytes()
    assert work(queue) > 0
    assert first.read_bytes()[8:] == damaged[8:]
    assert list(coarseness_of(all_of(queue)).values()).count(TALLY) > 0


def test_how_coarse_it_is_made_is_known_to_the_next_life(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    fill(queue, simulated(SECONDS))
    work(queue)
    queue.close()
    queue = opened(tmp_path)
    (segment, _) = queue.untouched(TALLY) or (0, None)
    assert segment > 2
    queue.close()


def test_the_thread_says_what_it_did_and_ends(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    fill(queue, simulated(SECONDS))

    def records() -> float:
        return float(metrics.COARSENED.labels("tallies")._value.get())

    before = records()
    thread = CoarsenerThread(SpoolCoarsener(queue))
    thread.start()
    until(lambda: queue.filled_ratio < 0.5)
    thread.stop()
    assert records() - before == list(coarseness_of(all_of(queue)).values()).count(TALLY)
    assert metrics.COARSEN_SECONDS._value.get() > 0
