"""What comes again in every record of a series: devices, pods, holders, processes.

An agent repeats them in each record, as a window must not depend on another one. Whoever reads a series of
records decodes such a part once, and knows it again by its bytes. The value is then the same object in all
records that have it; nobody may change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpuledger.contract.avro.reader import Reader
from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.avro.schema import Array, Map, Node, Primitive, Record, Union

NUMBERS = frozenset({"int", "long", "float", "double"})


@dataclass(slots=True, eq=False)
class Part:
    """The value of a field: its bytes, what it spends of a record's limits, and the rules that it is known
    to keep, each with the lengths of the arrays that it was checked against."""

    octets: bytes
    value: Any
    spent: tuple[int, int]
    kept: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)
    made: Any = None
    """What a caller makes of the value, once."""


class Parts:
    """The latest part of each field in one series of records. Owned by one thread, and always used with the
    same schema and limits."""

    __slots__ = ("_known", "size_bytes")

    def __init__(self) -> None:
        self._known: dict[str, Part] = {}
        self.size_bytes = 0

    def read(self, name: str, reader: Reader, scan: Scan, position: int) -> tuple[Part, int]:
        """The part that begins at ``position`` and the position after it. Raises BadRecord."""
        known = self._known.get(name)
        if known is not None:
            if scan.data.startswith(known.octets, position) and scan.spend(known.spent):
                return known, position + len(known.octets)
            self.size_bytes -= len(known.octets)
        before = scan.spent
        value, end = reader(scan, position)
        after = scan.spent
        spent = after[0] - before[0], after[1] - before[1]
        part = self._known[name] = Part(scan.data[position:end], value, spent)
        self.size_bytes += len(part.octets)
        return part, end


def comes_again(node: Node) -> bool:
    """Whether a field holds arrays or maps of anything but numbers: those are worth knowing again."""
    match node:
        case Array(Primitive(kind)):
            return kind not in NUMBERS
        case Array() | Map():
            return True
        case Union(branches):
            return any(map(comes_again, branches))
        case Record(_, fields):
            return any(comes_again(inner.node) for inner in fields)
        case _:
            return False
