"""What came about of the faults of a seed, by what Kafka and the logs hold: a fault that is only planned
tests nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from gpuledger.contract.identity import Epoch, NodeKey, RecordId
from tests.chaos.faults import KINDS
from tests.chaos.poison import BOOT
from tests.chaos.times import is_ahead
from tests.chaos.truth import Arrived, Ledger

LOST, AGAIN, LATE = "records lost with a spool", "records that came again", "records behind their charge"
SHARED, OVERLAP = "windows of several epochs", "epochs that overlap"
AHEAD, PAST = "records of no window yet", "records of windows long past"
PAST_NS = 600_000_000_000  # more than any spool here is held up
WORDS = {
    "clocks seen to step": "clock_stepped",
    "spools not written": "spool_not_written",
    "inserts refused for want of disk": "NOT_ENOUGH_SPACE",
}
LINKS = ("link-kafka", "link-registry", "link-warehouse", "link-agent")
REFUSED = ("refuse 252 link-warehouse", "refuse 242 link-warehouse")
DISKS = ("fill disk-warehouse", "fill disk-nodes", "fill store-kafka", "halt kafka")


def named() -> set[str]:
    """All that should come about in some seed. The spool of a node that is stranded is lost."""
    processes = {
        f"{kind.begin} {family}"
        for family, kinds in KINDS.items()
        if family not in ("link", "inserts", "disk", "store")
        for kind in kinds
        if kind.begin != "strand"
    }
    links = {f"{what} {link}" for link in LINKS for what in ("cut", "hold", "mute")}
    return {*processes, *links, *REFUSED, *DISKS, LOST, AGAIN, LATE, SHARED, OVERLAP, AHEAD, PAST, *WORDS}


def came(
    arrived: Sequence[Arrived], ledger: Ledger, nodes: Collection[str], spooled: Collection[RecordId]
) -> Counter[str]:
    """Of these nodes, by what Kafka holds. ``spooled``: what was in spools that were lost."""
    own = [one for one in arrived if one.headers.id.node in nodes and one.headers.id.boot_id != BOOT]
    charged: dict[tuple[NodeKey, int], int] = {}
    for at_ns, charges in ledger.told:
        place = NodeKey(charges.cluster, charges.node), charges.window_start_ns
        charged[place] = min(at_ns, charged.get(place, at_ns))
    epochs: dict[tuple[NodeKey, int], set[Epoch]] = defaultdict(set)
    for one in own:
        epochs[_place(one)].add(one.headers.id.epoch)
    known = {one.headers.id for one in own}
    return Counter(
        {
            LOST: len(set(spooled) - known),
            AGAIN: len(own) - len(known),
            LATE: sum(one.at_ns > charged.get(_place(one), one.at_ns) for one in own),
            SHARED: sum(len(them) > 1 for them in epochs.values()),
            OVERLAP: _overlapping(own),
            AHEAD: sum(is_ahead(one.headers.window_start_ns, one.at_ns) for one in own),
            PAST: sum(one.headers.window_start_ns + PAST_NS < one.at_ns for one in own),
        }
    )


def said(logs: Iterable[Path]) -> Counter[str]:
    """By what is told in logs."""
    texts = [log.read_text(errors="replace") for log in logs if log.exists()]
    return Counter({what: sum(text.count(word) for text in texts) for what, word in WORDS.items()})


def in_seeds(seeds: Sequence[Counter[str]]) -> dict[str, int]:
    """In how many seeds each came about, also what never did."""
    names = named().union(*seeds)
    return {name: sum(seed[name] > 0 for seed in seeds) for name in sorted(names)}


def _overlapping(arrived: Iterable[Arrived]) -> int:
    """Changes from an epoch to one that had spoken before, in the order of the log."""
    by_node: dict[NodeKey, list[Epoch]] = defaultdict(list)
    seen: set[RecordId] = set()
    for one in arrived:
        if one.headers.id not in seen:  # what comes again is no life that goes on
            seen.add(one.headers.id)
            by_node[one.headers.id.node_key].append(one.headers.id.epoch)
    found = 0
    for epochs in by_node.values():
        spoken: set[Epoch] = set()
        for before, after in pairwise(epochs):
            spoken.add(before)
            found += after != before and after in spoken
    return found


def _place(one: Arrived) -> tuple[NodeKey, int]:
    return one.headers.id.node_key, one.headers.window_start_ns
