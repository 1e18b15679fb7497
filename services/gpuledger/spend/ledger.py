"""Where a report of any span reads: stored hours where whole hours lie in it, windows for the rest.

So a report of a month does not read a month of windows, and one that begins at 17:25 begins at 17:25.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuledger.spend.span import HOUR_S, Span
from gpuledger.warehouse import Grain

WINDOWS_KEPT_S = 34 * 24 * HOUR_S  # the tables keep 35 days; a day is for those that are leaving


class Stretch(NamedTuple):
    """A part of a span and the view that answers for it."""

    grain: Grain
    span: Span


def stretches(span: Span, now_s: int, fine: bool) -> list[Stretch]:
    """The parts of a span, in order. ``fine``: windows all the way. What is older than windows are kept is
    read by whole hours, so that a span that begins or ends within such an hour has all of it."""
    oldest = -(-(now_s - WINDOWS_KEPT_S) // HOUR_S) * HOUR_S
    if span.start_s < oldest:
        old = Span(span.start_s - span.start_s % HOUR_S, min(-(-span.until_s // HOUR_S) * HOUR_S, oldest))
        rest = Span(oldest, span.until_s)
        younger = stretches(rest, now_s, fine) if rest.length_s > 0 else []
        return [Stretch(Grain.HOUR, old), *younger]
    first, last = -(-span.start_s // HOUR_S) * HOUR_S, span.until_s // HOUR_S * HOUR_S
    if fine or first >= last:
        return [Stretch(Grain.WINDOW, span)]
    parts = [
        Stretch(Grain.WINDOW, Span(span.start_s, first)),
        Stretch(Grain.HOUR, Span(first, last)),
        Stretch(Grain.WINDOW, Span(last, span.until_s)),
    ]
    return [part for part in parts if part.span.length_s]


def source(
    parts: Iterable[tuple[Stretch, Mapping[str, str]]], columns: Iterable[str], commitments: bool = False
) -> tuple[str, dict[str, Any]]:
    """A subquery of the ledger's rows in the stretches, and its parameters.

    Each row has ``columns``, ``at_s`` (its window's or hour's start, s since the epoch) and the constants
    that are given for its stretch (name -> SQL). Unused commitments are outside the law: in it only if asked.
    """
    selects: list[str] = []
    parameters: dict[str, Any] = {}
    listed = ", ".join(columns)
    for number, (stretch, constants) in enumerate(parts):
        view, time = stretch.grain.value
        given = "".join(f", {value} AS {name}" for name, value in constants.items())
        selects.append(
            f"SELECT {listed}, toUnixTimestamp({time}) AS at_s{given}\nFROM {view}\n"
            f"WHERE {time} >= fromUnixTimestamp({{from{number}:UInt32}})\n"
            f"  AND {time} < fromUnixTimestamp({{until{number}:UInt32}})\n"
            + ("" if commitments else "  AND reason != 'commitment'")
        )
        parameters |= {f"from{number}": stretch.span.start_s, f"until{number}": stretch.span.until_s}
    return "(\n" + "\nUNION ALL\n".join(selects) + "\n)", parameters
