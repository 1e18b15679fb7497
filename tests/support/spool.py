"""Entries with a number, and journals and queues that hold them."""

from __future__ import annotations

from pathlib import Path

from gpuledger.agent.spool import Entry, Journal, NodeQueue

MIB = 1 << 20


def entry(number: int, size: int = 100) -> Entry:
    """An entry of no window, whose body begins with its number."""
    return Entry("EventBatch", b"c/n", number.to_bytes(4, "big") + bytes(size), (("name", b"v"),), b"c/n")


def number(found: Entry) -> int:
    """The number of an entry."""
    return int.from_bytes(found.body[:4], "big")


def take(queue: NodeQueue, count: int, acknowledge: bool = True) -> list[int]:
    """The numbers of the next so many entries."""
    found = []
    for _ in range(count):
        ticket = queue.take(0)
        assert ticket is not None
        found.append(number(ticket.entry))
        if acknowledge:
            queue.acknowledge(ticket)
    return found


def journal(directory: Path, **more: int) -> Journal:
    """A journal of 8 MiB unless said otherwise."""
    return Journal(directory, **{"max_bytes": 8 * MIB, **more})


def numbers(found: Journal) -> list[int]:
    """The numbers of all entries that wait in it."""
    return [number(e) for _, e in found.read(found.begin, found.end)]
