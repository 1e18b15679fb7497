"""How long is waited between the attempts to deliver: real Kafka, a real server, and time that is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from gpuledger.bus import BusSettings, SchemaRegistry
from gpuledger.bus.access import Secret
from gpuledger.contract.clock import ManualClock
from gpuledger.localstack import Kafka
from gpuledger.notify.courier import Courier
from gpuledger.notify.service import SILENT_S
from gpuledger.notify.source import Source
from gpuledger.notify.webhook import Webhook
from gpuledger.serving.watch import Watch
from tests.support.breaches import breach, publish_breaches
from tests.support.hooks import Hook, hook
from tests.support.kafka import create_topic
from tests.support.waiting import until

Unique = Callable[[str], str]
ROUNDED_S = 1  # an attempt says its second
SESSION_S = 45.0  # a machine that stands still for some seconds is no new beginning


class Hurried(Source):
    """A source at which waiting takes no time of ours, only the clock's."""

    def __init__(self, bus: BusSettings, topic: str, group: str, clock: ManualClock) -> None:
        super().__init__(bus, topic, group, SESSION_S, clock)
        self._told = clock

    def wait(self, timeout_s: float) -> bool:
        self._told.sleep(timeout_s)
        return super().wait(0)


@pytest.fixture
def server() -> Iterator[Hook]:
    with hook() as started:
        yield started


@pytest.fixture
def pauses(
    bus: BusSettings, kafka: Kafka, unique: Unique, server: Hook
) -> Iterator[Callable[[Sequence[tuple[int, str]]], list[int]]]:
    """Delivers one notice to a server that gives these answers, then 200; seconds between the attempts."""
    topic = create_topic(kafka, unique("breaches"))
    clock, stop = ManualClock(time.time_ns()), threading.Event()
    registry = SchemaRegistry(bus)
    courier = Courier(
        "hook",
        Webhook(server.url, Secret("of the test's own"), clock),
        Hurried(bus, topic, unique("notify"), clock),
        registry,
        clock,
        wanted=lambda notice: True,
        concerns=lambda breach: True,
        refuse=lambda record, why: None,
        pulse=Watch(clock).pulse("hook", SILENT_S),
    )
    worker = threading.Thread(target=courier.run, args=(stop,))

    def delivered(answers: Sequence[tuple[int, str]]) -> list[int]:
        server.coming.extend(answers)
        publish_breaches(bus, topic, [breach("b1")])
        worker.start()
        until(lambda: bool(server.taken()))
        at = [int(hit.headers["webhook-timestamp"]) for hit in server.hits]
        return [after - before for before, after in pairwise(at)]

    yield delivered
    stop.set()
    worker.join()
    registry.close()


def test_pauses_double_up_to_a_minute_each_up_to_half_shorter(
    pauses: Callable[[Sequence[tuple[int, str]]], list[int]],
) -> None:
    longest = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    found = pauses([(503, "")] * len(longest))
    assert len(found) == len(longest)
    for pause_s, longest_s in zip(found, longest, strict=True):
        assert longest_s / 2 - ROUNDED_S <= pause_s <= longest_s + ROUNDED_S


def test_a_pause_that_the_target_asks_for_is_kept_but_not_for_hours(
    pauses: Callable[[Sequence[tuple[int, str]]], list[int]],
) -> None:
    """A date is no number of seconds, and less than our own pause is no reason to come sooner."""
    asked = [(429, "120"), (503, "100000"), (503, "Wed, 21 Oct 2065 07:28:00 GMT"), (503, "0")]
    first, second, dated, sooner = pauses(asked)
    assert abs(first - 120) <= ROUNDED_S
    assert abs(second - 600) <= ROUNDED_S
    assert 2 - ROUNDED_S <= dated <= 4 + ROUNDED_S
    assert 4 - ROUNDED_S <= sooner <= 8 + ROUNDED_S
