"""Kafka is away so long that the spool fills: the oldest come coarser, all in order, with their own times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent import publisher
from gpuledger.agent.coarser import CoarsenerThread, SpoolCoarsener
from gpuledger.agent.coarser import worker as worker_module
from gpuledger.agent.publisher import Publisher
from gpuledger.agent.rules import HOLLOW, TALLY
from gpuledger.agent.spool import Journal, NodeQueue
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.records import EventBatch
from gpuledger.contract.rows import Flag
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, Registry
from tests.support.agent import S
from tests.support.agent_bench import Bench
from tests.support.agent_charged import charges_of, starts_of
from tests.support.kafka import STACK_DIRECTORY
from tests.support.telemetry import Told, telemetry
from tests.support.waiting import PATIENCE_S, until

AWAY_S = 400
BOUND = 700_000  # a quarter of what comes meanwhile
SEGMENT_BYTES = 50_000
FLYING_BYTES = 50_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kafka]:
    with Kafka(tmp_path / "kafka", STACK_DIRECTORY, SOON_LET_IN_AGAIN) as server:
        apply_topics(BusSettings.load(kafka_bootstrap=server.bootstrap), partitions=3, replication=1)
        yield server


def test_while_kafka_is_away_the_oldest_become_coarser_and_then_all_arrive_in_order(
    broker: Kafka, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "MAX_FLYING_BYTES", FLYING_BYTES)
    monkeypatch.setattr(worker_module, "CORE_RATIO", 0.5)  # minutes pass in seconds here
    monkeypatch.setattr(worker_module, "LOOK_S", 0.01)
    bus = BusSettings.load(kafka_bootstrap=broker.bootstrap, registry_url=registry.url)
    queue = NodeQueue(Journal(tmp_path / "spool", BOUND, SEGMENT_BYTES), memory_bytes=30_000)
    bench = Bench(tmp_path / "agent", queue=queue)
    sender, coarsener = Publisher(bus, queue, "test"), CoarsenerThread(SpoolCoarsener(queue))
    sender.start()
    coarsener.start()
    bench.run(12, tick_ns=S)
    until(lambda: queue.is_empty)
    broker.kill9()
    for _ in range(AWAY_S):
        bench.run(1, tick_ns=S)
        until(lambda: queue.filled_ratio < 0.65)  # the thread has its turn
    assert queue.refused == 0
    broker.restart()
    assert sender.drain(PATIENCE_S, time.sleep)
    coarsener.stop()
    sender.stop()
    arrived = telemetry(broker, "node")
    sequences = list(dict.fromkeys(one.headers.id.sequence for one in arrived))
    assert sequences == list(range(len(sequences)))
    check(list({one.headers.id.sequence: one for one in arrived}.values()))


def check(arrived: list[Told]) -> None:
    """Every window is there with its own times; the oldest that waited are the coarsest, and charged so."""
    records = [(one.headers, one.body) for one in arrived]
    starts = starts_of(records)
    assert starts == list(range(starts[0], starts[-1] + 1, 10 * S))
    assert len(starts) >= AWAY_S // 10
    level_of: dict[int, int] = {}
    for headers, body in records:
        if isinstance(body, EventBatch):
            level_of[headers.window_start_ns] = body.header.coarsening
            inside = (body.time_ns >= headers.window_start_ns) & (
                body.time_ns < headers.window_start_ns + 10 * S
            )
            assert inside.all()
    levels = [level_of[start] for start in starts]
    assert levels[0] == 0, "Kafka had it before"
    behind = levels[levels.index(HOLLOW) :]
    assert set(levels[: levels.index(HOLLOW)]) == {0}, "and what was on its way"
    assert behind == sorted(behind, reverse=True)
    assert set(behind) == {0, TALLY, HOLLOW}
    for start in starts:
        charges = charges_of(records, start)
        assert charges.conservation_error_nano == 0
        lost = {row.values["lost_events"] for row in charges.rows()}
        assert (lost == {0}) == (level_of[start] != HOLLOW)
        used = sum(row.values["used_ns"] for row in charges.rows())
        assert used == pytest.approx(0 if level_of[start] == HOLLOW else 19 * S, abs=S // 100)
        assert all(
            bool(Flag(row.values["flags"]) & Flag.EVENTS_LOST) == (level_of[start] == HOLLOW)
            for row in charges.rows()
        )
