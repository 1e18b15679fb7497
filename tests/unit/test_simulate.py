"""The simulated fleet: the same from the same seed, as agents would send it, and its truth found again."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import fastavro
import numpy as np
import pytest

from gpuledger.attribution import NodeWindow, charge_window, check_record
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import EventBatch, Holdings, PriceBookVersion, PriceEntry, SampleBatch, encode
from gpuledger.contract.revision import Revision
from gpuledger.pricing import Prices, Teams
from gpuledger.simulate import FleetSpec, activity, plan_node, truth
from gpuledger.simulate.cli import simulate
from gpuledger.simulate.emit import Files, TruthFile, emit
from gpuledger.simulate.records import Telemetry, window_records

SPEC = FleetSpec(gpus=24, hours=0.1, seed=7, agent_crashes=30.0, pod_changes=40.0, node_ends=0.5)
CALM = replace(SPEC, agent_crashes=0.0, node_ends=0.0, pod_changes=0.0)
PRICES = Prices([PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])])
POINT = 0.01


def starts(spec: FleetSpec) -> range:
    return range(spec.start_ns, spec.end_ns, spec.window_ns)


def records(spec: FleetSpec, number: int) -> list[Telemetry]:
    plan = plan_node(spec, number)
    return [record for start in starts(spec) for record in window_records(spec, plan, start)]


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others() -> None:
    first = [encode(record) for record in records(SPEC, 1)]
    assert first == [encode(record) for record in records(SPEC, 1)]
    assert first != [encode(record) for record in records(replace(SPEC, seed=8), 1)]


def test_any_window_can_be_made_alone() -> None:
    plan = plan_node(SPEC, 0)
    whole = records(SPEC, 0)
    start = starts(SPEC)[17]
    alone = list(window_records(SPEC, plan, start))
    of_it = [record for record in whole if record.header.window_start_ns == start]
    assert [encode(record) for record in alone] == [encode(record) for record in of_it]


@pytest.mark.parametrize("number", range(SPEC.nodes))
def test_an_epochs_records_are_numbered_without_holes(number: int) -> None:
    by_epoch = defaultdict(list)
    for record in records(SPEC, number):
        check_record(record)
        by_epoch[record.header.epoch_ns].append(record.header)
    assert by_epoch
    for headers in by_epoch.values():
        assert [header.sequence for header in headers] == list(range(len(headers)))
        for one, other in pairwise(headers):
            same = one.window_start_ns == other.window_start_ns
            assert other.part == (one.part + 1 if same else 0)
            assert same or one.last, "a window is closed before the next begins"
        began_inside = headers[0].epoch_ns + headers[0].clock_offset_ns > headers[0].window_start_ns
        assert headers[0].part == int(began_inside)


def test_agents_crash_and_come_back_and_nodes_come_and_go() -> None:
    plans = [plan_node(SPEC, number) for number in range(SPEC.nodes)]
    assert any(len(plan.lives) > 1 for plan in plans)
    assert any(plan.launched_ns > SPEC.start_ns or plan.ended_ns < SPEC.end_ns for plan in plans)
    ended = [plan for plan in plans if plan.lives and plan.lives[-1].end_ns == plan.ended_ns]
    assert all(records(SPEC, plan.number)[-1].header.goodbye for plan in ended)


@pytest.mark.parametrize("number", range(SPEC.nodes))
def test_every_window_adds_up_whatever_happened_in_it(number: int) -> None:
    plan = plan_node(SPEC, number)
    for start in starts(SPEC):
        charges = charge_window(window(SPEC, number, start), PRICES, Teams())
        assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0), start
    assert plan.layout.devices


def window(spec: FleetSpec, number: int, start: int) -> NodeWindow:
    plan = plan_node(spec, number)
    found = list(window_records(spec, plan, start))
    whole = len(found) > 0 and found[-1].header.last and found[0].header.part == 0
    whole = whole and len({record.header.epoch_ns for record in found}) == 1
    lives = max(plan.launched_ns, start), min(plan.ended_ns, start + spec.window_ns)
    return NodeWindow(
        *plan.key, start, spec.window_ns, Revision(0, len(found), 0, 1),
        state="complete" if whole else "incomplete" if found else "unobserved",
        holdings=[record for record in found if isinstance(record, Holdings)],
        events=[record for record in found if isinstance(record, EventBatch)],
        samples=[record for record in found if isinstance(record, SampleBatch)],
        layout=plan.layout, life_start_ns=lives[0], life_end_ns=max(lives),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(CALM.nodes))
def test_charges_find_the_truth_again(number: int) -> None:
    """On whole and time-sliced GPUs and MIG instances, to within the noise of the measured processes. Under
    MPS shares of SM-time are an estimate, and held against the emulator instead."""
    plan = plan_node(CALM, number)
    mps = {device.uuid for device in plan.layout.devices if device.sharing == "mps"}
    part = {device.uuid: (device.slices or 1) / (device.slices_total or 1) for device in plan.layout.devices}
    for start in starts(CALM)[:12]:
        charges = charge_window(window(CALM, number, start), PRICES, Teams())
        used: dict[tuple[str, str], int] = defaultdict(int)
        for row in charges.rows():
            used[row["device"], row["consumer"]] += row["used_ns"]
        for true in truth(CALM, plan, start):
            if true.device not in mps:
                busy = true.busy_ns * part[true.device]  # a row's time is that of whole GPUs
                assert abs(used[true.device, true.consumer] - busy) <= 3 * POINT * CALM.window_ns, true


def test_most_of_the_time_of_pods_is_idle_as_in_published_traces() -> None:
    """Two thirds of the samples of pods at zero, a mean duty below 10 %."""
    spec = FleetSpec(gpus=320, hours=0.05, seed=3)
    busy, held = [], []
    for number in range(spec.nodes):
        plan = plan_node(spec, number)
        for start in starts(spec)[:6]:
            rows = [row for row in truth(spec, plan, start) if row.held_ns]
            busy += [row.busy_ns for row in rows]
            held += [row.held_ns for row in rows]
    assert 0.6 < np.mean(np.array(busy) == 0) < 0.8
    assert 0.03 < sum(busy) / sum(held) < 0.10


def test_time_that_is_shared_sums_to_what_was_occupied() -> None:
    plan = plan_node(CALM, 0)
    for start in starts(CALM)[:6]:
        seen = activity(CALM, plan, start)
        devices = np.array([tenant.device for tenant in seen.tenants])
        for device, occupied in enumerate(seen.occupied_ns):
            assert seen.busy_ns[devices == device].sum() == pytest.approx(occupied)
            assert occupied <= CALM.window_ns


def test_files_hold_every_record_and_the_truth(tmp_path: Path) -> None:
    spec = FleetSpec(gpus=8, hours=0.01, seed=2)
    files, true = Files(tmp_path), TruthFile(tmp_path / "truth.csv")
    sent = emit(spec, files, lambda _: None, true.add)
    files.close()
    true.close()
    found = 0
    for name in ("Holdings", "EventBatch", "SampleBatch"):
        with (tmp_path / f"{name}.avro").open("rb") as file:
            found += sum(1 for _ in fastavro.reader(file))
    assert (sent.windows, sent.records) == (4, found)
    with (tmp_path / "truth.csv").open() as rows:
        assert {row["node"] for row in csv.DictReader(rows)} == {"node-00000"}


@pytest.mark.parametrize(
    "wrong", [{"gpus": 0}, {"hours": 0}, {"start_ns": 5}, {"clusters": 9}, {"window_ns": 7_000_000_000}]
)
def test_numbers_that_make_no_fleet_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"."):
        FleetSpec(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("hours", ["nan", "inf", "-1", "1e300"])
def test_hours_that_are_none_are_refused_before_anything_is_written(hours: str, tmp_path: Path) -> None:
    target = tmp_path / "fleet"
    with pytest.raises(ConfigError, match="--hours"):
        simulate(hours=float(hours), out=target)
    assert not target.exists()
