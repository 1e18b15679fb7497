"""The price of one kind of device over all of time, from every entry that may apply to it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from gpuledger.contract.records import PriceEntry
from gpuledger.pricing.currencies import FOREVER_NS, Segment


class PricePiece(NamedTuple):
    """A stretch of time at one unit price; ``entry`` is None where no entry applies."""

    start_ns: int
    end_ns: int
    entry: PriceEntry | None
    unit_price_nano_per_hour: int  # in the book's currency; 0 without an entry


@dataclass(frozen=True, slots=True)
class Timeline:
    """Pieces from 0 to FOREVER_NS without gaps, in order of time."""

    pieces: tuple[PricePiece, ...]
    starts: tuple[int, ...]

    @staticmethod
    def of(candidates: Iterable[tuple[PriceEntry, Sequence[Segment]]]) -> Timeline:
        """The timeline of candidates that are in order of precedence, the first of them wins."""
        pieces: list[PricePiece] = []
        for piece in _sweep(candidates):
            last = pieces[-1] if pieces else None
            if last is not None and last[2:] == piece[2:]:
                pieces[-1] = last._replace(end_ns=piece.end_ns)
            else:
                pieces.append(piece)
        return Timeline(tuple(pieces), tuple(piece.start_ns for piece in pieces))

    def within(self, start_ns: int, end_ns: int) -> list[PricePiece]:
        """The pieces of [start_ns, end_ns), the first and the last cut to it."""
        index = max(bisect_right(self.starts, start_ns) - 1, 0)
        piece = self.pieces[index]
        if piece.start_ns <= start_ns < end_ns <= piece.end_ns:  # as nearly every window does
            return [PricePiece(start_ns, end_ns, piece.entry, piece.unit_price_nano_per_hour)]
        found = []
        while piece.start_ns < end_ns:
            start, end = max(piece.start_ns, start_ns), min(piece.end_ns, end_ns)
            if start < end:
                found.append(PricePiece(start, end, piece.entry, piece.unit_price_nano_per_hour))
            index += 1
            if index == len(self.pieces):
                break
            piece = self.pieces[index]
        return found


def _sweep(candidates: Iterable[tuple[PriceEntry, Sequence[Segment]]]) -> Iterator[PricePiece]:
    """A piece between each two cuts: the best entry that has begun and not ended, kept in a heap."""
    opening: dict[int, list[tuple[int, int, int]]] = {}
    entries: list[PriceEntry] = []
    cuts = {0, FOREVER_NS}
    for rank, (entry, segments) in enumerate(candidates):
        entries.append(entry)
        for segment in segments:
            start, end = max(segment.start_ns, 0), min(segment.end_ns, FOREVER_NS)
            if start < end:
                opening.setdefault(start, []).append((rank, end, segment.unit_price_nano_per_hour))
                cuts.update((start, end))
    open_now: list[tuple[int, int, int]] = []
    for start, end in pairwise(sorted(cuts)):
        for segment_now in opening.get(start, ()):
            heappush(open_now, segment_now)
        while open_now and open_now[0][1] <= start:
            heappop(open_now)
        if open_now:
            rank, _, unit = open_now[0]
            yield PricePiece(start, end, entries[rank], unit)
        else:
            yield PricePiece(start, end, None, 0)
