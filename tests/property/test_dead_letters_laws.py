"""A dead letter can be written whatever the record was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.bus import Incoming, letter
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import PREFIX
from gpuledger.contract.records import DeadLetter, decode, encode

NUMBERS = ["0", "7", str((1 << 31) - 1), str(1 << 31), str((1 << 63) - 1), str(1 << 63), "-1", "", "x", "٣"]
numbers = st.sampled_from(NUMBERS).map(str.encode)
windows = st.sampled_from([b"0/1", b"9223372036854775800/10", b"-10/10", b"10/0", b"7", b""])
ours = st.fixed_dictionaries(
    {
        "epoch": st.sampled_from([b"boot/5", b"/9223372036854775807", b"b/x", b"\xff/1"]),
        "sequence": numbers,
        "kind": st.sampled_from([b"events", b"samples", b"nonsense"]),
        "window": windows,
        "part": numbers,
        "flags": st.sampled_from([b"", b"last,keyframe", b",,,"]),
        "mend": numbers,
    }
).map(lambda found: [(PREFIX + name, value) for name, value in found.items()])
others = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=99)), max_size=4)
keys = st.none() | st.binary(max_size=9) | st.sampled_from([b"c/n", b"c/" + b"n" * 300, b"x" * 40_000])


@settings(max_examples=200)
@given(keys, st.none() | st.binary(max_size=99), ours, others, st.integers(-1, 1 << 42), st.text(max_size=99))
def test_every_record_has_a_dead_letter(key, value, known, more, timestamp_ms, said):
    record = Incoming("gpu.telemetry", 0, 5, timestamp_ms, key, value, (*known, *more))
    dead = letter(record, BadRecord("bad_header", said), "processor", 9)
    assert decode(DeadLetter, encode(dead)).source_offset == 5
