"""Records of series that repeat themselves are what each is by itself, also among records that are broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.avro import Codec, Limits, Parts
from gpuledger.contract.columns import longs
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import (
    Device,
    EventBatch,
    Gap,
    Header,
    Holder,
    Holdings,
    NodeLayout,
    Pod,
    Process,
    SampleBatch,
    decode,
    decode_series,
    encode,
)

WINDOW_NS = 10_000_000_000
BIG = st.sampled_from([0, 1, 63, 64, 300, 1 << 20, 1 << 40, (1 << 62) - 1])


def header(node: int, sequence: int) -> Header:
    return Header("c", f"n{node}", "boot", 5, sequence, WINDOW_NS, WINDOW_NS, part=sequence)


def processes(count: int, salt: int) -> list[Process]:
    return [Process(100 + i, salt, consumer_kind="pod", consumer=f"uid-{i}") for i in range(count)]


@st.composite
def holdings(draw: st.DrawFn, node: int, sequence: int) -> Holdings:
    devices = draw(st.integers(1, 3))
    people = processes(draw(st.integers(0, 3)), draw(st.integers(0, 1)))
    holders = [Holder(f"uid-{i}", draw(st.integers(0, devices - 1))) for i in range(draw(st.integers(0, 3)))]
    return Holdings(
        header(node, sequence),
        WINDOW_NS,
        NodeLayout(labels={"pool": "gpu"}, devices=[Device(f"GPU-{i}", i) for i in range(devices)]),
        keyframe=draw(st.booleans()),
        pods=[Pod(f"uid-{i}", labels={"team": "t"}) for i in range(draw(st.integers(0, 2)))],
        holders=holders,
        processes=people,
        resident_process=longs(range(len(people))),
        resident_device=longs([0] * len(people)),
        resident_bytes=longs([draw(BIG) for _ in people]),
        unwitnessed=longs([0] * devices),
    )


@st.composite
def events(draw: st.DrawFn, node: int, sequence: int) -> EventBatch:
    people = processes(draw(st.integers(1, 3)), draw(st.integers(0, 1)))
    count = draw(st.sampled_from([0, 1, 5, 40, 200]))
    zeros = np.zeros(count, np.int64)
    column = np.array([draw(BIG) for _ in range(min(count, 5))] * count, np.int64)[:count]
    return EventBatch(
        header(node, sequence),
        processes=people,
        devices=["GPU-0", "GPU-1"][: draw(st.integers(1, 2))],
        time_ns=WINDOW_NS + np.arange(count) * 1000,
        process=zeros + len(people) - 1,
        thread=zeros - 1,
        device=zeros,
        operation=zeros + 1,
        duration_ns=column,
        bytes=column[::-1].copy(),
        launched_threads=zeros,
        function=zeros - 1,
        result=zeros,
        count=zeros + 1,
        span_ns=zeros,
    )


@st.composite
def samples(draw: st.DrawFn, node: int, sequence: int) -> SampleBatch:
    count = draw(st.sampled_from([0, 1, 30]))
    zeros = np.zeros(count, np.int64)
    return SampleBatch(
        header(node, sequence),
        devices=["GPU-0"],
        processes=processes(1, 0),
        device=zeros,
        process=zeros - 1,
        field=zeros + 1,
        source=zeros,
        start_ns=zeros + WINDOW_NS,
        duration_ns=zeros + draw(BIG),
        value=np.linspace(0.0, 1.0, count),
        gaps=[Gap(WINDOW_NS, device=0)] * draw(st.integers(0, 1)),
    )


KINDS: dict[type[Any], Any] = {Holdings: holdings, EventBatch: events, SampleBatch: samples}


@st.composite
def series(draw: st.DrawFn) -> tuple[type[Any], list[tuple[int, bytes]]]:
    """Records of one kind, each with its node; some are broken."""
    kind = draw(st.sampled_from(list(KINDS)))
    found = []
    for sequence in range(draw(st.integers(1, 7))):
        node = draw(st.integers(0, 1))
        body = encode(draw(KINDS[kind](node, sequence)))
        for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
            at = draw(st.integers(0, len(body) - 1))
            octet = bytes([draw(st.integers(0, 255))])
            body = draw(
                st.sampled_from(
                    [body[:at] + octet + body[at + 1 :], body[: max(1, at)], body[:at] + octet + body[at:]]
                )
            )
        found.append((node, body))
    return kind, found


def plain(found: Any) -> Any:
    """A record or a refusal in a form that can be compared."""
    if isinstance(found, BadRecord):
        return (found.reason, found.field, found.position, str(found))
    return {
        name: (value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value
        for name, value in ((name, getattr(found, name)) for name in type(found).__slots__)
    }


def alone(kind: type[Any], body: bytes) -> Any:
    try:
        return decode(kind, body)
    except BadRecord as error:
        return error


def together(kind: type[Any], batch: list[tuple[int, bytes]], parts: dict[int, Parts]) -> list[Any]:
    known = [parts.setdefault(node, Parts()) for node, _ in batch]
    return decode_series(kind, [body for _, body in batch], known)


@given(series(), st.integers(1, 7))
@settings(max_examples=300, deadline=None)
def test_records_of_series_are_what_each_is_alone(
    given_series: tuple[type[Any], list[tuple[int, bytes]]], at_a_time: int
) -> None:
    kind, batch = given_series
    parts: dict[int, Parts] = {}
    found: list[Any] = []
    for first in range(0, len(batch), at_a_time):
        found += together(kind, batch[first : first + at_a_time], parts)
    assert [plain(one) for one in found] == [plain(alone(kind, body)) for _, body in batch]


def state(sequence: int, devices: int, holder_of: int) -> Holdings:
    return Holdings(
        header(0, sequence),
        WINDOW_NS,
        NodeLayout(devices=[Device(f"GPU-{i}", i) for i in range(devices)]),
        holders=[Holder("uid-0", holder_of)],
        processes=processes(2, 0),
        unwitnessed=longs([0] * devices),
    )


def test_what_a_series_repeats_is_one_object() -> None:
    bodies = [encode(state(sequence, 2, 0)) for sequence in range(3)]
    first, second, third = decode_series(Holdings, bodies, [Parts()] * 3)
    assert not isinstance(first, BadRecord)
    assert not isinstance(second, BadRecord)
    assert not isinstance(third, BadRecord)
    assert first.layout is second.layout
    assert second.processes is third.processes
    assert first.header != second.header


def test_a_part_that_is_known_is_held_against_the_record_that_it_is_in() -> None:
    """The holder of the second GPU is fine in the first two records; the third has one GPU only."""
    good, again, bad = state(0, 2, 1), state(1, 2, 1), state(2, 1, 0)
    broken = _with_holders_of(bad, good)
    known = Parts()
    decode_series(Holdings, [encode(good)], [known])
    second, third = decode_series(Holdings, [encode(again), broken], [known] * 2)
    assert not isinstance(second, BadRecord)
    assert isinstance(third, BadRecord)
    assert third.reason == "bad_index"
    assert plain(third) == plain(alone(Holdings, broken))


def _with_holders_of(record: Holdings, other: Holdings) -> bytes:
    """The body of a record with another one's holders, which its own codec would not write."""
    body = encode(record)
    mine, theirs = encode(replace(record, holders=[])), encode(replace(other, holders=[]))
    own, foreign = _holders(body, mine), _holders(encode(other), theirs)
    assert body.count(own) == 1
    return body.replace(own, foreign)


def _holders(body: bytes, without: bytes) -> bytes:
    """The bytes by which a body is longer than the one without holders: all of the array."""
    at = next(i for i, (one, two) in enumerate(zip(body, without, strict=False)) if one != two)
    return body[at : at + len(body) - len(without) + 1]


NAMES = Codec(
    {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "number", "type": "long"},
            {"name": "one", "type": {"type": "array", "items": "string"}},
            {"name": "two", "type": {"type": "array", "items": "string"}},
        ],
    }
)


def test_parts_that_are_known_count_against_the_limits_of_each_record() -> None:
    """Three names are known from an earlier record; with two more a record has more values than it may."""
    limits = Limits(max_values=4)
    known = Parts()
    within = NAMES.encode({"number": 1, "one": ["a", "b", "c"], "two": ["d"]})
    beyond = NAMES.encode({"number": 2, "one": ["a", "b", "c"], "two": ["d", "e"]})
    first, second, third = NAMES.decode_series([within, beyond, within], [known] * 3, limits)
    assert not isinstance(first, BadRecord)
    assert not isinstance(third, BadRecord)
    assert isinstance(second, BadRecord)
    assert second.reason == "over_limit"
    with pytest.raises(BadRecord) as refused:
        NAMES.decode(beyond, limits)
    assert plain(second) == plain(refused.value)
