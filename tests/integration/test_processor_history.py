"""A new owner of a node with hours of history charges what is new at once, and loads the rest beside that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import confluent_kafka
import pytest
from prometheus_client import REGISTRY

from gpuledger.bus import BusSettings, Outgoing, SchemaRegistry, framed
from gpuledger.contract import topics
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import DeadLetter, Generation, decode
from gpuledger.contract.windows import HOUR_NS
from gpuledger.contract.wire import unframe
from gpuledger.processor import Engine, ProcessorSettings, engine
from tests.support.expected_ledger import expected
from tests.support.fleet import WINDOW_NS, Node, Sender, differences, ledger, read_all, recent_start

HOURS = 3  # of history; the last one has one window
APPLICATION = "history"
NODE = NodeKey("c", "n")

pytestmark = pytest.mark.usefixtures("priced")


class History:
    """A node that sent a window an hour, charged by an owner that is gone."""

    def __init__(self, bus: BusSettings, sender: Sender, directory: Path) -> None:
        self.bus = bus
        self.sender = sender
        self.node = Node(NODE)
        self.directory = directory
        start = recent_start(0) - HOURS * HOUR_NS
        self.first = start - start % HOUR_NS
        self.last = self.first + (HOURS - 1) * HOUR_NS
        self.ended = self.last + 4 * WINDOW_NS
        self._engines: list[Engine] = []
        sender.lifetime(self.node.lifetime(self.first, self.ended))
        owner = self.owner()
        for hour in range(HOURS):
            sender.telemetry(self.node.window(self.first + hour * HOUR_NS))
            self.feed(owner)

    def owner(self, step: int = 3000) -> Engine:
        """A new owner of everything, by its first assignment."""
        settings = ProcessorSettings(
            application=APPLICATION, data_directory=self.directory, history_step=step
        )
        owner = Engine(self.bus, settings, ManualClock(self.ended, 10**15))
        self._engines.append(owner)
        owner.supersede(1)
        owner.assign(1, [0])
        return owner

    def feed(self, owner: Engine, assignment: int = 1) -> int | None:
        """Hand it all that there is; what may be acknowledged is."""
        done = owner.feed(assignment, read_all(self.bus, topics.TELEMETRY))
        return self.acknowledge(done.acknowledge.get(0))

    def tick(self, owner: Engine, assignment: int = 1) -> int | None:
        """Let it do what is due."""
        return self.acknowledge(owner.tick(assignment).acknowledge.get(0))

    def acknowledge(self, offset: int | None) -> int | None:
        """Commit an offset, as the worker does."""
        if offset is not None:
            group = {"bootstrap.servers": self.bus.kafka_bootstrap, "group.id": APPLICATION}
            consumer = confluent_kafka.Consumer(group)
            place = confluent_kafka.TopicPartition(topics.TELEMETRY, 0, offset)
            consumer.commit(offsets=[place], asynchronous=False)
            consumer.close()
        return offset

    def end(self) -> int:
        """Where gpu.telemetry ends."""
        return len(read_all(self.bus, topics.TELEMETRY))

    def assert_exact(self, generation: int = 0) -> None:
        """The ledger is what follows from the log, and no revision has two contents."""
        got, wanted = ledger(self.bus), expected(self.bus, {NODE: (self.first, self.ended)})
        assert {key: n for key, n in got.contents.items() if len(n) > 1} == {}
        assert {got.sets[key].generation for key in wanted} == {generation}
        found = {key: differences(replace(got.sets[key], generation=0), one) for key, one in wanted.items()}
        assert {key: columns for key, columns in found.items() if columns} == {}

    def close(self) -> None:
        for owner in self._engines:
            owner.close()


@pytest.fixture
def history(own_bus: BusSettings, sender: Sender, tmp_path: Path) -> Iterator[History]:
    history = History(own_bus, sender, tmp_path)
    yield history
    history.close()


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """New owners come no further than to the last records of gpu.progress; ``undo`` lets them go on."""
    monkeypatch.setattr(engine, "LOAD_AT_TICK_S", 0.0)
    monkeypatch.setattr(engine, "LOAD_BESIDE_RECORDS_S", 0.0)
    return monkeypatch


def is_loading() -> bool:
    return REGISTRY.get_sample_value("gpuledger_processor_partitions_loading") == 1


def test_new_windows_are_charged_before_the_history_is_there_and_a_late_record_waits_for_it(
    history: History, loading: pytest.MonkeyPatch
) -> None:
    owner, new, late = history.owner(step=2), history.last + WINDOW_NS, history.first + 5 * WINDOW_NS
    assert is_loading()
    before = history.end()
    history.sender.telemetry([*history.node.window(new), history.node.calls(late)])
    assert history.feed(owner) == before + 3, "of the new window, and not the late one"
    charged = ledger(history.bus).sets
    assert charged[NODE, new].state == "complete"
    assert charged[NODE, late].state == "unobserved"
    history.sender.telemetry(history.node.window(new + WINDOW_NS))
    assert history.feed(owner) is None, "what comes behind a late record is acknowledged with it"
    assert ledger(history.bus).sets[NODE, new + WINDOW_NS].state == "complete"
    assert history.tick(owner) is None
    assert is_loading()
    loading.undo()
    history.tick(owner)
    assert not is_loading()
    assert history.tick(owner) == history.end()
    history.sender.telemetry(history.node.window(new + 2 * WINDOW_NS))
    assert history.feed(owner) == history.end()
    history.assert_exact()


def test_whoever_is_killed_while_the_history_is_loading_loses_nothing(
    history: History, loading: pytest.MonkeyPatch
) -> None:
    for number in range(1, HOURS):
        owner = history.owner(step=2)  # the one before is gone, and acknowledged no more than it had finished
        assert is_loading()
        window = history.node.window(history.last + number * WINDOW_NS)
        late = history.node.calls(history.first + number * HOUR_NS - WINDOW_NS)
        history.sender.telemetry([late, *window])
        history.feed(owner)
        assert ledger(history.bus).sets[NODE, history.last + number * WINDOW_NS].state == "complete"
    loading.undo()
    last = history.owner(step=2)
    for number in range(HOURS, 4):
        history.sender.telemetry(history.node.window(history.last + number * WINDOW_NS))
    assert history.end() in (history.feed(last), history.tick(last), history.tick(last))
    history.assert_exact()
    reopened = [history.first + number * HOUR_NS - WINDOW_NS for number in range(1, HOURS)]
    assert {ledger(history.bus).sets[NODE, start].state for start in reopened} == {"incomplete"}


def test_a_rebalance_while_the_history_is_loading_keeps_what_stays_and_begins_anew_what_returns(
    history: History, loading: pytest.MonkeyPatch
) -> None:
    owner, late = history.owner(step=2), history.first + 9 * WINDOW_NS
    history.sender.telemetry([history.node.calls(late)])
    assert history.feed(owner) is None
    for assignment, partitions in ((2, [0]), (3, []), (4, [0])):
        owner.supersede(assignment)
        owner.assign(assignment, partitions)
        assert is_loading() is bool(partitions)
    for number in range(1, 4):
        history.sender.telemetry(history.node.window(history.last + number * WINDOW_NS))
    assert history.feed(owner, 4) is None
    assert ledger(history.bus).sets[NODE, history.last + WINDOW_NS].state == "complete"
    loading.undo()
    history.tick(owner, 4)
    assert history.tick(owner, 4) == history.end()
    history.assert_exact()


def test_a_generation_that_is_announced_while_the_history_is_loading_restates_all_of_its_range(
    history: History, loading: pytest.MonkeyPatch
) -> None:
    owner = history.owner(step=2)
    history.sender.telemetry(history.node.window(history.last + WINDOW_NS))
    with SchemaRegistry(history.bus) as registry:
        announced = Generation(1, 0, history.first, history.ended, price_version=1, team_version=0)
        history.sender.send(Outgoing(topics.GENERATIONS, b"g", framed(registry, announced), (), 0))
    history.tick(owner)
    history.feed(owner)
    charged = ledger(history.bus).sets
    assert charged[NODE, history.last + WINDOW_NS].generation == 1
    assert charged[NODE, history.first].generation == 0
    loading.undo()
    history.tick(owner)
    for number in range(2, 4):
        history.sender.telemetry(history.node.window(history.last + number * WINDOW_NS))
    history.feed(owner)
    history.tick(owner)
    history.assert_exact(generation=1)


def test_what_nobody_can_read_of_the_history_is_told_once_all_of_it_was_looked_at(
    history: History, loading: pytest.MonkeyPatch
) -> None:
    history.sender.send(Outgoing(topics.PROGRESS, b"junk", b"junk", (), 0))
    history.sender.telemetry(history.node.window(history.last + WINDOW_NS))
    owner = history.owner(step=2)
    assert is_loading()
    history.feed(owner)
    history.tick(owner)
    assert read_all(history.bus, topics.DEAD_LETTERS) == []
    loading.undo()
    for _ in range(2):
        again = history.owner(step=2)
        for _ in range(2):
            again.tick(1)
            again._next_mark_ns = 0  # the next tick takes the time again
    letters = [
        decode(DeadLetter, unframe(m.value or b"")[1]) for m in read_all(history.bus, topics.DEAD_LETTERS)
    ]
    assert [(letter.source_topic, letter.value) for letter in letters] == [(topics.PROGRESS, b"junk")]
