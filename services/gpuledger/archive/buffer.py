"""Records of one partition on their way to a commit, and when it is time for one. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.archive.writing import hour_of
from gpuledger.bus import Incoming

RECORD_BYTES = 200  # of memory beside key, headers and value


@dataclass(slots=True)
class Buffer:
    """All records from ``first`` on that are in no commit yet. A commit never spans two hours of arrival."""

    first: int
    records: list[Incoming] = field(default_factory=list)
    size_bytes: int = 0
    since_ns: int = 0  # boot clock at the first record

    def fits(self, record: Incoming) -> bool:
        """Whether it arrived in the hour of those before it."""
        return not self.records or hour_of(self.records[-1]) == hour_of(record)

    def add(self, record: Incoming, now_ns: int) -> None:
        """Take the next record."""
        if not self.records:
            self.since_ns = now_ns
        self.records.append(record)
        self.size_bytes += size_of(record)

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.records[-1].offset + 1 if self.records else self.first

    def clear(self) -> None:
        """They are committed."""
        self.first, self.records, self.size_bytes = self.end, [], 0


def size_of(record: Incoming) -> int:
    """Bytes of memory of a record, about."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
