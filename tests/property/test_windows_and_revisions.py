"""Laws of windows, revisions, identities and record headers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.revision import (
    MAX_CORE,
    MAX_DIGEST,
    MAX_GENERATION,
    MAX_INPUTS,
    Revision,
    digest_of_inputs,
)
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, WindowGrid, hour_start

instants = st.integers(0, 4 * 10**18)
grids = st.sampled_from([WindowGrid(seconds * 10**9) for seconds in (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60)])
revisions = st.builds(
    Revision,
    st.integers(0, MAX_GENERATION),
    st.integers(0, MAX_INPUTS),
    st.integers(0, MAX_DIGEST),
    st.integers(0, MAX_CORE),
)
names = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1, max_size=40
).filter(lambda name: name != "-")
record_ids = st.builds(
    RecordId, names, names, st.uuids().map(str), st.integers(0, 2**62), st.integers(0, 2**40)
)


@given(grids, instants)
def test_every_instant_lies_in_exactly_one_window(grid: WindowGrid, t: int) -> None:
    start = grid.start(t)
    assert start <= t < grid.end(t) == grid.next(start)
    assert grid.is_start(start)
    assert start // MINUTE_NS == (grid.end(t) - 1) // MINUTE_NS
    assert hour_start(start) == hour_start(t) == hour_start(grid.end(t) - 1)


@given(grids, instants, st.integers(0, 300 * 10**9))
def test_windows_between_two_instants_have_no_gap(grid: WindowGrid, first: int, length: int) -> None:
    starts = list(grid.between(first, first + length))
    assert all(b - a == grid.length_ns for a, b in itertools.pairwise(starts))
    if length:
        assert starts[0] <= first < starts[0] + grid.length_ns
        assert starts[-1] < first + length <= starts[-1] + grid.length_ns


@pytest.mark.parametrize("length_ns", [0, -1, 7 * 10**9, 10**8, 2 * HOUR_NS])
def test_a_length_that_does_not_divide_a_minute_is_refused(length_ns: int) -> None:
    with pytest.raises(ValueError, match="divisor"):
        WindowGrid(length_ns)


@given(revisions, revisions)
def test_packed_revisions_order_as_revisions_do(one: Revision, other: Revision) -> None:
    assert (one < other) == (one.packed < other.packed)
    assert Revision.unpack(one.packed) == one
    assert 0 <= one.packed < 1 << 64


@pytest.mark.parametrize(
    "wrong",
    [
        Revision(MAX_GENERATION + 1, 0, 0, 0),
        Revision(0, MAX_INPUTS + 1, 0, 0),
        Revision(0, 0, -1, 0),
        Revision(0, 0, 0, 256),
    ],
)
def test_a_revision_outside_its_bits_is_refused(wrong: Revision) -> None:
    with pytest.raises(ValueError, match="outside"):
        _ = wrong.packed


@given(st.lists(st.tuples(record_ids, st.integers(0, 3)), max_size=6, unique=True), st.randoms())
def test_the_digest_does_not_depend_on_the_order(inputs: list[tuple[RecordId, int]], random: object) -> None:
    shuffled = list(inputs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert digest_of_inputs(inputs) == digest_of_inputs(shuffled) <= MAX_DIGEST


def test_the_digest_tells_a_mended_copy_from_its_original() -> None:
    record = RecordId("c", "n", "b", 1, 2)
    assert digest_of_inputs([(record, 0)]) != digest_of_inputs([(record, 1)])
    assert digest_of_inputs([(record, 0)]) != digest_of_inputs([(record._replace(sequence=3), 0)])


headers = st.builds(
    RecordHeaders,
    id=record_ids,
    kind=st.sampled_from(Kind),
    window_start_ns=st.integers(0, 10**8).map(lambda n: n * 10**10),
    window_length_ns=st.just(10**10),
    part=st.integers(0, 1000),
    last=st.booleans(),
    amendment=st.booleans(),
    goodbye=st.booleans(),
    keyframe=st.booleans(),
    mend=st.integers(0, 9),
)


@given(headers)
def test_record_headers_survive_kafka(value: RecordHeaders) -> None:
    assert RecordHeaders.from_kafka(value.id.node_key.key, value.to_kafka()) == value


@given(
    st.one_of(st.none(), st.binary(max_size=40)),
    headers,
    st.dictionaries(
        st.sampled_from(["epoch", "sequence", "kind", "window", "part", "flags", "mend"]),
        st.one_of(st.none(), st.binary(max_size=200)),
        max_size=3,
    ),
)
def test_wild_headers_are_read_or_refused_and_never_crash(
    key: bytes | None, value: RecordHeaders, changes: dict[str, bytes | None]
) -> None:
    wild = dict(value.to_kafka()) | {f"gpuledger-{name}": change for name, change in changes.items()}
    try:
        found = RecordHeaders.from_kafka(key, wild.items())
    except BadRecord as error:
        assert error.reason in {"bad_header", "bad_key", "bad_name"}
    else:
        assert found.window_start_ns % found.window_length_ns == 0


@pytest.mark.parametrize(
    "key", [None, b"", b"cluster", b"/node", b"a/b/c", b"a/\x00", b"a/\xff", b"-/n", b"a/" + b"n" * 254]
)
def test_a_key_that_names_no_node_is_refused(key: bytes | None) -> None:
    with pytest.raises(BadRecord):
        NodeKey.from_key(key)


@pytest.mark.parametrize("missing", ["epoch", "sequence", "kind", "window", "part", "flags", "mend"])
def test_a_missing_header_is_refused_by_name(missing: str) -> None:
    value = RecordHeaders(RecordId("c", "n", "b", 1, 2), Kind.EVENTS, 0, 10**10, 0, True)
    left = [(name, data) for name, data in value.to_kafka() if name != f"gpuledger-{missing}"]
    with pytest.raises(BadRecord, match=missing):
        RecordHeaders.from_kafka(b"c/n", left)
