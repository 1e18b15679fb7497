"""What the processor keeps of nodes that repeat themselves is bounded."""

from __future__ import annotations

from gpuledger.contract.headers import Kind
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, Header, Holdings, NodeLayout, decode_series, encode
from gpuledger.processor.reading import Series

WINDOW_NS = 10_000_000_000


def read(series: Series, node: int, window: int) -> Holdings:
    """A record of a node, read as the processor does."""
    key = NodeKey("c", f"n{node}")
    header = Header(*key, "boot", 5, window, window * WINDOW_NS, WINDOW_NS)
    layout = NodeLayout(devices=[Device(f"GPU-{node}-{i}", i) for i in range(8)])
    body = encode(Holdings(header, window * WINDOW_NS, layout))
    found = decode_series(Holdings, [body], [series.parts(key.key, Kind.HOLDINGS)])[0]
    series.trim()
    assert isinstance(found, Holdings)
    return found


def test_what_a_node_repeats_is_decoded_once() -> None:
    series = Series()
    assert read(series, 1, 1).layout is read(series, 1, 2).layout


def test_nodes_are_forgotten_beyond_a_bound_and_some_are_still_known_when_their_turn_comes() -> None:
    series = Series(kept_bytes=20_000)  # some thirty nodes
    known = 0
    before: dict[int, NodeLayout] = {}
    for window in range(1, 6):
        for node in range(60):
            layout = read(series, node, window).layout
            known += before.get(node) is layout
            before[node] = layout
    assert known > 0
    kept = sum(series.parts(NodeKey("c", f"n{n}").key, Kind.HOLDINGS).size_bytes > 0 for n in range(60))
    assert 0 < kept < 60
