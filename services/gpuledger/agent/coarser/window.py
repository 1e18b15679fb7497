"""A window that waits, one step coarser: the same records in the same order, each with its identity, its
place and its times, and with less in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuledger.agent.coarser.hollow import HollowWindow
from gpuledger.agent.coarser.tallied import TalliedWindow, is_tallied
from gpuledger.agent.coarser.waiting import Place
from gpuledger.agent.rules import TALLY
from gpuledger.agent.spool import Entry
from gpuledger.contract.headers import Kind
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode, encode

Load = Callable[[int], Entry]
"""From the number of a record in its segment to what waits."""


class Coarser(NamedTuple):
    """A record that takes the place of the one with that number; ``lost_calls`` were taken out of it."""

    number: int
    entry: Entry
    lost_calls: int = 0


def coarser(window: Sequence[Place], load: Load, coarseness: int) -> Iterator[Coarser | None]:
    """What changes in a whole window, in its order; None stands for a step that only looked. Nothing where it
    is so coarse already. Raises BadRecord for what can not be read, OSError."""
    if coarseness == TALLY:
        return _tallied(window, load)
    return _hollow(window, load)


def _tallied(window: Sequence[Place], load: Load) -> Iterator[Coarser | None]:
    calls = [place for place in window if place.headers.kind is Kind.EVENTS]
    if not calls or window[-1].headers.kind is not Kind.SAMPLES:
        return
    first = decode(Holdings, load(window[0].number).body)
    tallied = TalliedWindow(first, decode(SampleBatch, load(window[-1].number).body))
    yield None
    for place in calls:
        entry = load(place.number)
        batch = decode(EventBatch, entry.body)
        if is_tallied(batch):
            return
        told = tallied.coarser(batch, final=place is calls[-1])
        yield Coarser(place.number, entry._replace(body=encode(told)))


def _hollow(window: Sequence[Place], load: Load) -> Iterator[Coarser | None]:
    hollow = HollowWindow()
    found: list[Coarser] = []
    for place in window:
        if place.headers.kind is Kind.HOLDINGS:
            continue
        entry, before = load(place.number), hollow.lost_calls
        told: EventBatch | SampleBatch
        if place.headers.kind is Kind.EVENTS:
            told = hollow.calls(decode(EventBatch, entry.body))
        else:
            told = hollow.samples(decode(SampleBatch, entry.body))
        found.append(Coarser(place.number, entry._replace(body=encode(told)), hollow.lost_calls - before))
        yield None
    for place in window if hollow.lost_calls else ():
        if place.headers.kind is Kind.HOLDINGS:
            entry = load(place.number)
            state = hollow.state(decode(Holdings, entry.body))
            found.append(Coarser(place.number, entry._replace(body=encode(state))))
            yield None
    yield from sorted(found, key=lambda told: told.number)
