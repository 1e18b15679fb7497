"""What the core makes of a view without durations and results: no estimate that rests on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agent.simulated import SimulatedNode, SimulatedSource
from gpuledger.agent.tetragon import MISSING
from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Teams
from tests.support.agent import S
from tests.support.agent_bench import Bench
from tests.support.charging import prices

BUSY_RATIO = 0.6
START = 1_000_010 * S


def charged(directory: Path, engine_active: float | None) -> list[dict[str, Any]]:
    """Rows of one window, with a total for each device or none."""
    bench = Bench(directory)
    bench.run(31)
    records = [(headers, body) for headers, body in bench.records() if headers.window_start_ns == START]
    bodies = [body for _, body in records]
    samples = [body for body in bodies if isinstance(body, SampleBatch)]
    if engine_active is not None:
        uuids = [device.uuid for device in SimulatedNode().devices]
        size = len(uuids)
        samples[0] = replace(
            samples[0],
            devices=uuids,
            device=longs(range(size)),
            process=longs([-1] * size),
            field=longs([int(Field.ENGINE_ACTIVE)] * size),
            source=longs([int(SampleSource.GPM)] * size),
            start_ns=longs([START] * size),
            duration_ns=longs([10 * S] * size),
            value=doubles([engine_active] * size),
            gaps=[],
        )
    window = NodeWindow(
        "cluster",
        "node",
        START,
        10 * S,
        Revision(0, len(bodies), 0, CORE_VERSION),
        holdings=[body for body in bodies if isinstance(body, Holdings)],
        events=[body for body in bodies if isinstance(body, EventBatch)],
        samples=samples,
    )
    assert all(batch.missing == list(MISSING) for batch in window.events)
    charges = charge_window(window, prices(), Teams())
    assert charges.conservation_error_nano == 0
    return [dict(row.values) for row in charges.rows()]


@pytest.fixture(autouse=True)
def _entries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SimulatedSource.drain

    def drain(self: SimulatedSource):  # type: ignore[no-untyped-def]
        events = whole(self)
        for column in MISSING:
            events[column] = 0
        return events

    monkeypatch.setattr(SimulatedSource, "missing", property(lambda self: MISSING))
    monkeypatch.setattr(SimulatedSource, "drain", drain)


def test_without_a_total_of_the_silicon_nobody_is_charged_for_time_that_nobody_saw(tmp_path: Path) -> None:
    rows = charged(tmp_path, engine_active=None)
    assert sum(row["launches"] for row in rows) > 0
    assert sum(row["used_ns"] for row in rows) == 0
    assert sum(row["unobserved_ns"] for row in rows) > 0


def test_a_total_is_shared_in_equal_parts_and_says_that_it_knows_no_better(tmp_path: Path) -> None:
    rows = charged(tmp_path, BUSY_RATIO)
    used = [row for row in rows if row["used_ns"]]
    assert {row["evidence"] for row in used} == {"equal_active"}
    for device in {row["device"] for row in used}:
        parts = [row["used_ns"] for row in used if row["device"] == device]
        assert sum(parts) == BUSY_RATIO * 10 * S
        assert max(parts) == min(parts)
    most = BUSY_RATIO * 10 * S  # any of them may have had all of it, to some points
    assert all(row["confidence_low_ns"] == 0 for row in used)
    assert all(most <= row["confidence_high_ns"] <= most + S for row in used)
