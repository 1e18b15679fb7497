"""Every revision of a window that gpu.charges still holds, and why each came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuledger.attribution.charges import sums
from gpuledger.bus import Incoming
from gpuledger.bus.log import Log
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.records import ChargeSet, Generation, decode
from gpuledger.contract.revision import Revision
from gpuledger.contract.topics import CHARGES, TELEMETRY
from gpuledger.contract.wire import unframe
from gpuledger.explain.stored import WindowKey

NS_PER_MS = 1_000_000
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Told:
    """One charge set: where and when it was written, and why."""

    place: str
    append_ns: int
    revision: Revision
    state: str
    inputs: int
    price_version: int
    team_version: int
    total_nano: int
    why: str


def revisions_of(
    log: Log, key: WindowKey, partition: int, telemetry: Log, generations: Mapping[int, Generation]
) -> list[Told]:
    """The sets of a window in the order in which they were written; one that came twice is told once.

    Reads gpu.charges of the partition from the window on. Raises Unavailable.
    """
    found: list[Told] = []
    best: ChargeSet | None = None
    seen: set[Revision] = set()
    for message, charges in _sets(log, key, partition):
        revision = _revision(charges)
        if revision in seen:
            continue
        seen.add(revision)
        why = _why(charges, best, telemetry, generations)
        place = f"{CHARGES}/{message.partition}/{message.offset}"
        found.append(
            Told(
                place,
                message.timestamp_ms * NS_PER_MS,
                revision,
                charges.state,
                charges.inputs,
                charges.price_version,
                charges.team_version,
                sums(charges)[0],
                why,
            )
        )
        if best is None or revision > _revision(best):
            best = charges
    return found


def _sets(log: Log, key: WindowKey, partition: int) -> Iterator[tuple[Incoming, ChargeSet]]:
    first = log.offset_at(CHARGES, partition, key.start_ns)
    for message in log.read_to_end(CHARGES, partition, first):
        if message.key != key.node.key:
            continue
        try:
            charges = decode(ChargeSet, unframe(message.value or b"")[1])
        except BadRecord:
            continue  # the sink has told it
        if charges.window_start_ns == key.start_ns:
            yield message, charges


def _why(
    charges: ChargeSet, best: ChargeSet | None, telemetry: Log, generations: Mapping[int, Generation]
) -> str:
    if best is None:
        return _FIRST.get(charges.state, "first computed")
    now, before = _revision(charges), _revision(best)
    if now < before:
        return "does not hold: a greater revision was there"
    reasons = []
    if now.generation > before.generation:
        reasons.append(_generation(now.generation, generations))
    new = sorted(set(_offsets(charges)) - set(_offsets(best)))
    if new:
        reasons.append(_arrivals(telemetry, charges.partition, new))
    elif now.inputs > before.inputs:
        reasons.append("gpu.nodes stated when the node's life began or ended")
    if now.core > before.core:
        reasons.append(f"version {now.core} of the charging rules, before {before.core}")
    return "; ".join(reasons) or "the window that it speaks from was restated"


_FIRST = {
    "complete": "its last part was read",
    "incomplete": "closed without all of its parts: a later window came, or the node was silent",
    "refused": "closed with a record that can not be read",
    "unobserved": "no record of it came",
    "ended": "the node had ended",
}


def _generation(number: int, generations: Mapping[int, Generation]) -> str:
    found = generations.get(number)
    if found is None:
        return f"generation {number}"
    words = " by ".join(text for text in (found.why or found.cause, found.who) if text)
    return f"generation {number}: {words}" if words else f"generation {number}"


def _arrivals(telemetry: Log, partition: int, offsets: list[int]) -> str:
    """What came late, and what was mended."""
    mended: list[int] = []
    late: list[int] = []
    for message in telemetry.read_range(TELEMETRY, partition, offsets[0], offsets[-1]):
        if message.offset not in offsets:
            continue
        try:
            mend = RecordHeaders.from_kafka(message.key, message.headers).mend
        except BadRecord:
            mend = 0
        (mended if mend else late).append(message.offset)
    said = []
    for what, found in (("late", late), ("mended", mended)):
        if found:
            named = ", ".join(f"{TELEMETRY}/{partition}/{offset}" for offset in found[:MOST_NAMED])
            more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            said.append(f"{what}: {named}{more}")
    return "; ".join(said) or f"{len(offsets)} more records, which are not there any more"


def _offsets(charges: ChargeSet) -> Iterator[int]:
    for first, count in zip(charges.offset_starts.tolist(), charges.offset_counts.tolist(), strict=True):
        yield from range(first, first + count)


def _revision(charges: ChargeSet) -> Revision:
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version)
