"""``gpuledger nodes list|retire`` against a real Kafka, and what the processor makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from gpuledger.bus import BusSettings
from gpuledger.contract.identity import NodeKey
from tests.support.fleet import Node, Sender, ledger, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S


def nodes(bus: BusSettings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuledger", "nodes", *arguments],
        env={"GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap, "GPULEDGER_REGISTRY_URL": bus.registry_url},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def listed(bus: BusSettings) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(nodes(bus, "list", "--json").stdout)["nodes"]
    return found


def test_a_node_that_is_retired_is_listed_with_its_end_and_no_longer_charged(
    own_bus: BusSettings, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "gone"))
    sender = Sender(own_bus)
    sender.prices()
    sender.lifetime(node.lifetime(start))
    sender.telemetry(node.window(start))
    sender.close()
    workers.start()

    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    (before,) = listed(own_bus)
    assert (before["cluster"], before["node"], before["launched_ns"]) == ("c", "gone", start)
    assert before["ended_ns"] is None
    last_record_ns = before["last_record_ns"]

    def states_since() -> set[str]:
        sets = ledger(own_bus).sets.items()
        return {found.state for (_, at), found in sets if at >= last_record_ns}

    workers.await_that(lambda: states_since() == {"unobserved"}, PATIENCE_S, "charged while silent")
    early = nodes(own_bus, "retire", "c", "gone", "--yes", "--at", iso(start))
    assert early.returncode == 2
    assert "sent records after that" in early.stderr
    assert nodes(own_bus, "retire", "c", "other", "--yes").returncode == 2
    done = nodes(own_bus, "retire", "c", "gone", "--yes")
    assert done.returncode == 0, done.stderr
    assert [row["ended_ns"] for row in listed(own_bus)] == [last_record_ns]
    workers.await_that(lambda: states_since() == {"ended"}, PATIENCE_S, "withdrawn")
    again = nodes(own_bus, "retire", "c", "gone", "--yes")
    assert (again.returncode, "no life without an end" in again.stderr) == (2, True)


def iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat()
