"""When the node's life began: what was stated, else the first start of its agent, kept so that a restart does
not move it."""

from __future__ import annotations

from pathlib import Path

from gpuledger.contract.errors import ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout, NodeLifetime

LAUNCHED_FILE = "launched_ns"


def launched_ns(directory: Path, stated_ns: int | None, now_ns: int) -> int:
    """The launch of this node, in ns since the Unix epoch. Raises ConfigError for a file that is damaged."""
    if stated_ns is not None:
        return stated_ns
    path = directory / LAUNCHED_FILE
    if path.exists():
        try:
            return int(path.read_text(encoding="ascii"))
        except (ValueError, UnicodeDecodeError) as error:
            raise ConfigError("holds no number; remove it or state --launched-ns", str(path)) from error
    temporary = directory / f"{LAUNCHED_FILE}.new"
    temporary.write_text(f"{now_ns}\n", encoding="ascii")
    temporary.replace(path)
    return now_ns


def lifetime_key(node: NodeKey, layout: NodeLayout) -> bytes:
    """Kafka key of a node's lifetimes: cluster/node/instance."""
    return node.key + b"/" + layout.instance_id.encode()


def lifetime(
    node: NodeKey, layout: NodeLayout, launched: int, ended: int | None, length_ns: int, now_ns: int
) -> NodeLifetime:
    """The agent's statement of the node's life."""
    return NodeLifetime(
        cluster=node.cluster,
        node=node.node,
        layout=layout,
        launched_ns=launched,
        ended_ns=ended,
        window_length_ns=length_ns,
        stated_by="agent",
        stated_ns=now_ns,
    )
