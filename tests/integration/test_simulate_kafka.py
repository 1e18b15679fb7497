"""A simulated fleet through a real Kafka and processor workers: the ledger is what its records say."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from gpuledger.bus import BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.contract.windows import HOUR_NS
from gpuledger.localstack import Kafka, Registry
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.emit import Topics, emit
from tests.support.fleet import WINDOW_NS, ledger, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

SPEC = FleetSpec(gpus=24, hours=0.05, seed=5, agent_crashes=20.0, node_ends=0.4)


def test_a_simulated_fleet_is_charged_whole(new_kafka: Kafka, registry: Registry, tmp_path: Path) -> None:
    """Crashes, restarts, launches and ends of nodes: every window of every life is there and sums to it."""
    new_kafka.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)
    apply_topics(bus, partitions=3, replication=1)
    with SchemaRegistry(bus) as schemas:
        register_all(schemas)
    windows = round(SPEC.hours * HOUR_NS / WINDOW_NS)
    spec = replace(SPEC, start_ns=recent_start(windows + 2))
    target = Topics(bus)
    sent = emit(spec, target, lambda _: None)
    target.close()
    assert sent.windows == windows
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    lived = {plan.key: plan.ended_ns - plan.launched_ns for plan in plans}
    workers = Workers(bus, "processor-of-a-simulated-fleet", tmp_path)
    try:
        workers.start()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            charged = dict.fromkeys(lived, 0)
            for (node, start), found in ledger(bus).sets.items():
                if start < spec.end_ns:
                    charged[node] += sum(
                        int(getattr(found, f"{part}_ns").sum())
                        for part in ("used", "held_idle", "unallocated", "unobserved")
                    )
            expected = {plan.key: lived[plan.key] * spec.gpus_of(plan.number) for plan in plans}
            if charged == expected:
                break
            time.sleep(0.5)
        assert charged == expected
    finally:
        workers.end()
