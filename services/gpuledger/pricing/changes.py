"""What changes from one version of a document to the next: entries, rules, and the time that they are for.

What lies in the past acts through a generation: ``restating`` says which.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

from gpuledger.contract.records import PolicyRule, PriceBookVersion, PriceEntry, TeamMapVersion, TeamRule
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.book import entry_match, in_order
from gpuledger.pricing.currencies import FOREVER_NS, unit_price_segments
from gpuledger.pricing.timeline import PricePiece, Timeline

V = TypeVar("V", PriceBookVersion, TeamMapVersion)


class PriceChange(NamedTuple):
    """A stretch of time in which the prices of equal match and priority differ; None: there is none."""

    start_ns: int
    end_ns: int
    match: tuple[str, ...]
    before: PricePiece | None
    after: PricePiece | None

    @property
    def cluster(self) -> str:
        """The cluster that it is for, empty for all."""
        return self.match[0]


class Range(NamedTuple):
    """Time that must be charged again, at whole minutes; ``clusters`` empty: all."""

    from_ns: int
    to_ns: int
    clusters: tuple[str, ...]


class Held(NamedTuple):
    """The version that windows of a stretch of time were charged with, by its place in the list; -1: none."""

    start_ns: int
    end_ns: int
    place: int


def price_changes(old: PriceBookVersion | None, new: PriceBookVersion) -> list[PriceChange]:
    """Every stretch in which a price would be another: its amount in the currency of account, how it is
    divided, its id, or whether it is provisional. In order of time.

    Of a late spot series that is from where it was known to where it is known now.
    """
    before, after = (_timelines(book) for book in (old, new))
    currency = old is not None and old.currency != new.currency
    nothing = Timeline.of(())
    changes: list[PriceChange] = []
    for group in sorted({*before, *after}):
        one, other = before.get(group, nothing), after.get(group, nothing)
        for start, end in pairwise(sorted({*one.starts, *other.starts, FOREVER_NS})):
            was, will = _at(one, start), _at(other, start)
            if (currency and (was or will)) or _told(was) != _told(will):
                _append(changes, PriceChange(start, end, group[0], was, will))
    return sorted(changes, key=lambda change: (change.start_ns, change.end_ns, change.match))


def team_changes(old: TeamMapVersion | None, new: TeamMapVersion) -> list[tuple[int, int]]:
    """The stretches of time in which another list of rules, another default team or another policy of some
    cluster would be asked."""
    was = old or TeamMapVersion(version=1, active_from_ns=0)
    same = was.default_team == new.default_team and bool(was.rules) == bool(new.rules)
    cuts = {0, FOREVER_NS}
    ruled: list[TeamRule | PolicyRule] = [*was.rules, *new.rules, *was.policies, *new.policies]
    for rule in ruled:
        cuts.add(max(rule.effective_from_ns, 0))
        cuts.add(_end(rule))
    found: list[tuple[int, int]] = []
    for start, end in pairwise(sorted(cuts)):
        if (
            same
            and _asked(was, start) == _asked(new, start)
            and _policies(was, start) == _policies(new, start)
        ):
            continue
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def held(versions: Sequence[V]) -> list[Held]:
    """Which version windows were charged with: at each instant the greatest that is active."""
    cuts = sorted({0, FOREVER_NS, *(max(version.active_from_ns, 0) for version in versions)})
    stretches = []
    for start, end in pairwise(cuts):
        active = [index for index, version in enumerate(versions) if version.active_from_ns <= start]
        best = max(active, key=lambda index: versions[index].version, default=-1)
        stretches.append(Held(start, end, best))
    return stretches


def ranges_to_restate(changes: Iterable[tuple[int, int, str]]) -> list[Range]:
    """What generations are announced for: (start, end, cluster or empty) joined where they meet, and widened
    to whole minutes, since windows never straddle one."""
    ranges: list[Range] = []
    for start, end, cluster in sorted(changes):
        low, high = start - start % MINUTE_NS, -(-end // MINUTE_NS) * MINUTE_NS
        last = ranges[-1] if ranges else None
        if last is None or low > last.to_ns:
            ranges.append(Range(low, high, (cluster,) if cluster else ()))
            continue
        everywhere = not cluster or not last.clusters
        clusters = () if everywhere else tuple(sorted({*last.clusters, cluster}))
        ranges[-1] = Range(last.from_ns, max(last.to_ns, high), clusters)
    return ranges


def cause_of(changes: Iterable[PriceChange]) -> str:
    """``late_price`` where all that changes is what was provisional, else ``price``."""
    provisional = [
        change.before is not None and change.before.entry is not None and change.before.entry.provisional
        for change in changes
    ]
    return "late_price" if provisional and all(provisional) else "price"


def _timelines(book: PriceBookVersion | None) -> dict[tuple[tuple[str, ...], int], Timeline]:
    """A timeline for each match and priority: within one, a checked book has one entry at a time."""
    groups: dict[tuple[tuple[str, ...], int], list[PriceEntry]] = {}
    for entry in sorted(book.entries, key=in_order) if book else ():
        groups.setdefault((entry_match(entry), entry.priority), []).append(entry)
    return {
        group: Timeline.of(
            (entry, unit_price_segments(entry, book.currency, book.rates)) for entry in entries
        )
        for group, entries in groups.items()
        if book
    }


def _at(timeline: Timeline, at_ns: int) -> PricePiece | None:
    piece = timeline.pieces[bisect_right(timeline.starts, at_ns) - 1]
    return None if piece.entry is None else piece


def _told(piece: PricePiece | None) -> tuple[object, ...] | None:
    """What of a price reaches a charge row."""
    if piece is None or piece.entry is None:
        return None
    entry = piece.entry
    divided = entry.per, entry.gpus_per_node, entry.gpu_share_ppb
    return piece.unit_price_nano_per_hour, entry.id, entry.provisional, *divided


def _append(changes: list[PriceChange], change: PriceChange) -> None:
    last = changes[-1] if changes else None
    if (
        last is not None
        and last.end_ns == change.start_ns
        and last.match == change.match
        and (_told(last.before), _told(last.after)) == (_told(change.before), _told(change.after))
    ):
        changes[-1] = last._replace(end_ns=change.end_ns)
    else:
        changes.append(change)


def _asked(teams: TeamMapVersion, at_ns: int) -> list[TeamRule]:
    """The rules in force at an instant in the order in which they are asked, without what says when and how
    they are called: that changes no charge."""
    rules = teams.rules
    order = sorted(range(len(rules)), key=lambda i: (-rules[i].priority, i))
    return [
        replace(rules[i], id="", priority=0, effective_from_ns=0, effective_to_ns=None)
        for i in order
        if rules[i].effective_from_ns <= at_ns and at_ns < _end(rules[i])
    ]


def _policies(teams: TeamMapVersion, at_ns: int) -> dict[str, list[str]]:
    """The settings in force at an instant: of all clusters, under an empty name, and of those that differ."""
    found = {
        one.cluster: [one.burst, one.entitlement, one.mig, one.idle]
        for one in (PolicyRule(""), *teams.policies)
        if one.effective_from_ns <= at_ns < _end(one)
    }
    return {cluster: settings for cluster, settings in found.items() if not cluster or settings != found[""]}


def _end(rule: TeamRule | PolicyRule) -> int:
    return FOREVER_NS if rule.effective_to_ns is None else rule.effective_to_ns
