"""A running processor is fed what nobody should send: the line goes on, and all time is charged."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry
from gpuledger.contract import topics
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet, DeadLetter, EventBatch, Holdings, SampleBatch, decode
from gpuledger.contract.revision import Revision
from gpuledger.contract.schemas import schema
from gpuledger.contract.wire import frame, unframe
from gpuledger.pricing import Prices, Teams
from tests.support.fleet import (
    PRICES,
    WINDOW_NS,
    Node,
    Sender,
    Telemetry,
    differences,
    ledger,
    read_all,
    recent_start,
)
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

SEED = 20261130
WINDOWS = 40
FLOOD = 3_000  # records that are no record
MAX_MEMORY_KIB = 700 << 10  # of the worker, with Faust and numpy at some 150 MiB
NEWER = 0.3  # of the windows of a node: its calls are of a later schema
YEAR_NS = 365 * 86_400 * 1_000_000_000

pytestmark = pytest.mark.usefixtures("priced")
Place = tuple[NodeKey, int]


class Poisoner:
    """Makes poison of a good record, by chance."""

    def __init__(self, chance: random.Random, bus: BusSettings) -> None:
        self._chance = chance
        with SchemaRegistry(bus) as registry:
            self._newer = registry.register("poison-EventBatch", newer_schema())
        self.kinds = (
            self.noise,
            self.flipped,
            self.cut,
            self.longer,
            self.unknown,
            self.empty,
            self.other_kind,
        )

    def any(self, message: Outgoing) -> Outgoing:
        return self._chance.choice(self.kinds)(message)

    def noise(self, message: Outgoing) -> Outgoing:
        return message._replace(value=self._chance.randbytes(self._chance.randrange(1, 2_000)))

    def flipped(self, message: Outgoing) -> Outgoing:
        value = bytearray(message.value or b"")
        for _ in range(self._chance.randrange(1, 20)):
            value[self._chance.randrange(5, len(value))] ^= 1 << self._chance.randrange(8)
        return message._replace(value=bytes(value))

    def cut(self, message: Outgoing) -> Outgoing:
        value = message.value or b""
        return message._replace(value=value[: self._chance.randrange(len(value))])

    def longer(self, message: Outgoing) -> Outgoing:
        return message._replace(value=(message.value or b"") + self._chance.randbytes(3))

    def unknown(self, message: Outgoing) -> Outgoing:
        return message._replace(value=frame(2_000_000_000, (message.value or b"")[5:]))

    def empty(self, message: Outgoing) -> Outgoing:
        return message._replace(value=None)

    def other_kind(self, message: Outgoing) -> Outgoing:
        headers = dict(message.headers) | {"gpuledger-kind": b"samples"}
        return message._replace(headers=tuple(headers.items()))

    def newer(self, message: Outgoing) -> Outgoing:
        """As a later version of the agent would send it: its schema has one field more."""
        return message._replace(value=frame(self._newer, (message.value or b"")[5:] + b"\x0a" + b"later"))

    def unplaced(self) -> Outgoing:
        """Nothing about it says whose it is."""
        chance = self._chance
        key = chance.choice([None, b"", b"noslash", chance.randbytes(9), b"c/" + b"n" * 300, b"c/good"])
        names = ["gpuledger-epoch", "gpuledger-window", "gpuledger-part", "x"]
        headers = tuple((name, chance.randbytes(chance.randrange(40))) for name in names)
        return Outgoing(topics.TELEMETRY, key, chance.randbytes(chance.randrange(4_000)), headers, 0)


def newer_schema() -> str:
    parsed = json.loads(json.dumps(schema("EventBatch")))
    parsed["fields"].append({"name": "of_later", "type": "string", "default": ""})
    return json.dumps(parsed)


def test_whatever_is_sent_the_line_goes_on_and_every_window_is_charged_in_full(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    chance = random.Random(SEED)
    poisoner = Poisoner(chance, own_bus)
    start = recent_start(WINDOWS + 30)
    good, bad, other = (Node(NodeKey(*key)) for key in (("c", "good"), ("c", "bad"), ("d", "good")))
    end = start + WINDOWS * WINDOW_NS
    for node in (good, bad, other):
        sender.lifetime(node.lifetime(start, end))
    worker = workers.start()
    sent: dict[Place, list[Telemetry]] = {}
    messages: list[Outgoing] = []
    for window_start in range(start, end, WINDOW_NS):
        for node in (good, other):
            sent[node.key, window_start] = node.window(window_start)
            messages += map(sender.outgoing, sent[node.key, window_start])
        if chance.random() < NEWER:
            messages[-2] = poisoner.newer(messages[-2])
        keyframe, calls, samples = map(sender.outgoing, bad.window(window_start))
        messages += [keyframe, poisoner.any(calls), samples]
        messages += [poisoner.unplaced() for _ in range(FLOOD // WINDOWS)]
        messages.append(foreign(sender.outgoing(good.calls(window_start))))
        years = chance.choice([30, -30]) * YEAR_NS // WINDOW_NS * WINDOW_NS
        messages.append(sender.outgoing(bad.calls(window_start + years)))
    with Producer(own_bus, "hostile") as producer:
        producer.produce_all(messages)
    workers.await_that(lambda: workers.committed(0) == len(messages), PATIENCE_S, "all of it is finished")
    assert worker.poll() is None
    assert memory_kib(worker.pid) < MAX_MEMORY_KIB

    sets = {place: found for place, found in ledger(own_bus).sets.items() if len(found.device)}
    assert {key for key, _ in sets} == {good.key, bad.key, other.key}
    for place, records in sent.items():
        assert not differences(sets[place], charged(place, records)), place
    for window_start in range(start, end, WINDOW_NS):
        found = sets[bad.key, window_start]
        parts = (found.used_ns, found.held_idle_ns, found.unallocated_ns, found.unobserved_ns)
        assert sum(int(part.sum()) for part in parts) == WINDOW_NS
        if found.state == "refused":
            assert {found.texts[i] for i in found.reason.tolist()} == {"refused"}
    refused = {found.window_start_ns for found in sets.values() if found.state == "refused"}
    assert len(refused) > WINDOWS // 2
    letters = [decode(DeadLetter, unframe(m.value or b"")[1]) for m in read_all(own_bus, topics.DEAD_LETTERS)]
    assert refused <= {letter.window_start_ns for letter in letters}
    reasons = {letter.reason for letter in letters}
    assert {"ahead_of_time", "too_old", "unknown_schema", "no_value", "bad_key"} <= reasons


def foreign(message: Outgoing) -> Outgoing:
    """The record under the key of a node of another cluster: its body says whose it is."""
    headers = RecordHeaders.from_kafka(message.key, message.headers)
    return message._replace(key=b"d/bad", headers=tuple(headers.to_kafka()))


def charged(place: Place, records: list[Telemetry]) -> ChargeSet:
    """What follows from the records of a window that nobody harmed."""
    keyframe, calls, samples = records
    assert isinstance(keyframe, Holdings)
    assert isinstance(calls, EventBatch)
    assert isinstance(samples, SampleBatch)
    window = NodeWindow(
        *place[0], place[1], WINDOW_NS, Revision(0, 3, 0, 1), state="complete", holdings=[keyframe],
        events=[calls], samples=[samples],
    )  # fmt: skip
    return charge_window(window, Prices([PRICES]), Teams()).to_record()


def memory_kib(pid: int) -> int:
    """The most memory that a process ever had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
