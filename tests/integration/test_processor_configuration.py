"""Which configuration a worker charges with, whatever kept it from hearing of a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuledger.bus import BusSettings, Outgoing, SchemaRegistry, framed
from gpuledger.contract import topics
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.processor.engine import Engine
from gpuledger.processor.settings import ProcessorSettings
from tests.support.fleet import PRICES, WINDOW_NS, Node, Sender, ledger, read_all, recent_start

MINUTE = 6 * WINDOW_NS  # a version is published at least so long before it holds


@pytest.fixture
def start() -> int:
    """Of the node's first window."""
    return recent_start(30)


@pytest.fixture
def engine(own_bus: BusSettings, start: int, tmp_path: Path) -> Iterator[Engine]:
    """The engine of a worker on a machine that was paused at the first window's end."""
    settings = ProcessorSettings(application="configured", data_directory=tmp_path)
    engine = Engine(own_bus, settings, ManualClock(start + WINDOW_NS, 10**15))
    engine.supersede(1)
    yield engine
    engine.close()


def publish(bus: BusSettings, sender: Sender, version: PriceBookVersion) -> None:
    with SchemaRegistry(bus) as registry:
        value = framed(registry, version)
    sender.send(Outgoing(topics.PRICES, b"prices", value, (), 0))


def test_a_worker_that_stood_still_charges_nothing_with_the_prices_that_it_knew_before(
    own_bus: BusSettings, sender: Sender, engine: Engine, start: int
) -> None:
    sender.prices()
    node, later = Node(NodeKey("c", "n")), start + MINUTE
    sender.lifetime(node.lifetime(start))
    engine.assign(1, [0])
    sender.telemetry(node.window(start))
    engine.feed(1, read_all(own_bus, topics.TELEMETRY))
    publish(own_bus, sender, replace(PRICES, version=2, active_from_ns=later))
    # a zombie still gets records until the group tells it that they are none of its own
    sender.telemetry(node.window(later))
    engine.feed(1, read_all(own_bus, topics.TELEMETRY))
    sets = ledger(own_bus).sets
    assert sets[node.key, start].price_version == 1
    assert sets[node.key, later].price_version == 2


def test_of_two_versions_with_one_number_the_first_holds(
    own_bus: BusSettings, sender: Sender, engine: Engine, start: int
) -> None:
    sender.prices()
    node = Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start))
    # whoever published it was told that somebody else had been first
    publish(own_bus, sender, replace(PRICES, entries=[PriceEntry("gpu", "gpu", 99_000_000_000, "USD")]))
    engine.assign(1, [0])
    sender.telemetry(node.window(start))
    engine.feed(1, read_all(own_bus, topics.TELEMETRY))
    charged = ledger(own_bus).sets[node.key, start]
    money = charged.used_nano + charged.held_idle_nano + charged.unallocated_nano + charged.unobserved_nano
    assert abs(int(money.sum()) - 12_290_000_000 * 10 // 3600) <= 1
