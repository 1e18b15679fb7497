"""A record that waits to be sent, and its bytes on disk."""

from __future__ import annotations

import struct
from typing import NamedTuple

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import FLAGS, KEYFRAME

_COUNT = struct.Struct(">I")


class Entry(NamedTuple):
    """An encoded record that is not framed yet: the registry may be away when it is written.

    ``record`` is the short name of its schema; ``node_key`` (cluster/node) chooses the partition where it is
    not that of ``key``.
    """

    record: str
    key: bytes
    body: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    node_key: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.body) + len(self.key) + sum(len(name) + len(value) for name, value in self.headers)

    @property
    def continues_window(self) -> bool:
        """Whether it is of a window that began with an earlier one, or perhaps so."""
        flags = dict(self.headers).get(FLAGS)
        return flags is not None and KEYFRAME.encode() not in flags.split(b",")

    def to_bytes(self) -> bytes:
        """Strings with their lengths: record, key, node key, body, then each header's name and value."""
        parts = [self.record.encode(), self.key, self.node_key, self.body]
        for name, value in self.headers:
            parts += [name.encode(), value]
        return b"".join(_COUNT.pack(len(part)) + part for part in parts)

    @staticmethod
    def from_bytes(data: bytes) -> Entry:
        """Inverse of ``to_bytes``. Raises BadRecord."""
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            if at + _COUNT.size > len(data):
                raise BadRecord("bad_spool_entry", "ends within a length", position=at)
            (length,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            if at + length > len(data):
                raise BadRecord("bad_spool_entry", "ends within a string", position=at)
            parts.append(data[at : at + length])
            at += length
        if len(parts) < 4 or len(parts) % 2:
            raise BadRecord("bad_spool_entry", f"has {len(parts)} strings")
        record, key, node_key, body = parts[:4]
        names = [name.decode() for name in parts[4::2]]
        return Entry(record.decode(), key, body, tuple(zip(names, parts[5::2], strict=True)), node_key)
