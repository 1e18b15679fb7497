"""Who sent a record, and which record it is."""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.contract.errors import BadRecord

MAX_NAME_BYTES = 253  # a Kubernetes node name is a DNS subdomain: 253 bytes at most


class NodeKey(NamedTuple):
    """A node of a cluster; its ``key`` is the Kafka key of everything that the node sends."""

    cluster: str
    node: str

    @property
    def key(self) -> bytes:
        """``cluster/node`` in UTF-8; what the partition is computed from."""
        return f"{self.cluster}/{self.node}".encode()

    @staticmethod
    def from_key(key: bytes | None) -> NodeKey:
        """Inverse of ``key``; raises BadRecord where it is none. The key of NO_NODE is no node's."""
        try:
            cluster, slash, node = (key or b"").decode().partition("/")
        except UnicodeDecodeError as error:
            raise BadRecord("bad_key", "the record key is not UTF-8") from error
        if not slash:
            raise BadRecord("bad_key", "the record key is not cluster/node")
        return NodeKey(cluster, node).checked()

    def checked(self) -> NodeKey:
        """Itself, or BadRecord where a name is empty, over-long or has a slash or a control character."""
        for name, value in (("cluster", self.cluster), ("node", self.node)):
            if not value or len(value.encode()) > MAX_NAME_BYTES:
                raise BadRecord("bad_name", f"must have 1 to {MAX_NAME_BYTES} bytes", name)
            if "/" in value or not value.isprintable() or value == "-":
                raise BadRecord("bad_name", "has a slash or a control character, or is '-'", name)
        return self


NO_NODE = NodeKey("-", "-")
"""Whose charges are no node's: what was committed to and not used."""


class Epoch(NamedTuple):
    """One life of a node's agent: the boot it ran in, and the boot clock in ns at its start."""

    boot_id: str
    started_boot_ns: int


class RecordId(NamedTuple):
    """The identity of a record: (cluster, node, epoch, sequence), whatever offset it has in Kafka."""

    cluster: str
    node: str
    boot_id: str
    epoch_ns: int
    sequence: int

    @property
    def node_key(self) -> NodeKey:
        """The node that sent it."""
        return NodeKey(self.cluster, self.node)

    @property
    def epoch(self) -> Epoch:
        """The agent's life that sent it."""
        return Epoch(self.boot_id, self.epoch_ns)
