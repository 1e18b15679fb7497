"""`gpuledger recommend` over a simulated fleet's ledger, and its promise against what then happens there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gpuledger.cli import app
from gpuledger.contract.records import Keeper
from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.recommend import Evidence, Settings, gather, recommend
from gpuledger.simulate import FleetSpec, NodePlan, plan_node
from gpuledger.spend import Span
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import charge_set, recent_window_ns
from tests.support.savings import realised
from tests.support.simulated import charged, write
from tests.support.worlds import PAST_HOURS, World, in_halves, of_small_gpus, world

pytest_plugins = ["tests.support.warehouse"]

ROUNDING_NANO = 1000  # each window and device rounds down to a nano
START = recent_window_ns(hours_ago=6)


def fleet(hours: float, **more: float) -> FleetSpec:
    calm = {"agent_crashes": 0.0, "node_ends": 0.0, "pod_changes": 0.0, "intruders": 0.0}
    return FleetSpec(8, hours, seed=5, start_ns=START, window_ns=60 * NS_PER_S, **(calm | more))


def span(hours: int) -> Span:
    return Span(START // NS_PER_S, START // NS_PER_S + hours * 3600)


def hourly(spec: FleetSpec, plans: Sequence[NodePlan], warehouse: Warehouse) -> Evidence:
    """The evidence where a tenth of the windows is charged: shares hold, amounts are a tenth."""
    write(warehouse, charged(spec, plans, every_ns=600 * NS_PER_S))
    return gather(warehouse, span(round(spec.hours)))


def test_workloads_are_read_with_what_they_held_used_and_kept_in_memory(warehouse: Warehouse) -> None:
    spec = fleet(2)
    plan = plan_node(spec, 0)
    found = hourly(spec, [plan], warehouse)
    names = {f"{t.pod.workload_kind}/{t.pod.workload}" for t in plan.tenants if t.pod}
    assert {one.workload for one in found.workloads} == names
    for one in found.workloads:
        assert len(one.hours) == 2
        assert all(0 <= hour.low_ns <= hour.used_ns <= hour.high_ns <= hour.total_ns for hour in one.hours)
        assert all(hour.memory_bytes > 0 for hour in one.hours)
        assert sum(hour.used_ns for hour in one.hours) == 0 or "idle" not in one.name
    held = sum(hour.total_nano or 0 for one in found.workloads for hour in one.hours)
    (whole,) = warehouse.rows("SELECT sum(used) + sum(held_idle) FROM charges WHERE consumer_kind = 'pod'")
    assert held == int(whole[0].scaleb(9)) > 0


def test_a_node_whose_work_ended_is_seen_with_its_last_holder(warehouse: Warehouse) -> None:
    spec = fleet(4)
    plan = plan_node(spec, 0)
    ended = replace(plan, tenants=tuple(replace(t, end_ns=START + HOUR_NS) for t in plan.tenants))
    (found,) = [one for one in recommend(hourly(spec, [ended], warehouse), Settings()) if "node" in one.rule]
    assert found.rule == "node_after_work"
    assert found.team in {t.pod.namespace for t in plan.tenants if t.pod}
    assert found.evidence.length_s == 3 * 3600


def test_the_command_names_the_pods_that_keep_a_node_alive_and_what_stops_an_autoscaler(
    warehouse: Warehouse,
) -> None:
    """Those of the last window that names any: of the earlier ones some have gone."""
    shell = Keeper("u", "ops", "shell", "", ["no_controller"])
    web = Keeper("v", "shop", "web-0", "Deployment/web", [])
    for hour, (keepers, count) in enumerate([([web], 1), ([shell, web], 9), ([shell, web], 9), ([], 0)]):
        kept = charge_set(START + hour * HOUR_NS, pods=[""], nano=7)
        words = {"none": "kept_by_cpu_pods", "pod": "pool"}
        kept.texts = [words.get(text, text) for text in kept.texts]
        kept.used_ns[:] = kept.held_idle_ns[:] = kept.unobserved_ns[:] = 0
        kept.unallocated_ns[:] = 10 * NS_PER_S
        kept.keepers, kept.keepers_count = keepers, count
        write(warehouse, [kept])
    options = ["recommend", "--url", str(warehouse.url), "--since", "4h"]
    options += ["--until", _instant(START + 4 * HOUR_NS)]
    told = CliRunner().invoke(app, options).output
    assert "ops/shell (no controller would make it again: cluster-autoscaler leaves its node)" in told
    assert "shop/web-0 of Deployment/web (nothing on the pod stops an autoscaler" in told
    assert "; and 7 more" in told
    assert "first ops/shell" in told
    (one,) = json.loads(CliRunner().invoke(app, [*options, "--json"]).output)
    assert one["rule"] == "node_kept_by_cpu_pods"
    assert one["kept_by"] == [
        {"pod": "ops/shell", "workload": None, "why": ["no_controller"]},
        {"pod": "shop/web-0", "workload": "Deployment/web", "why": []},
    ]


def test_an_hour_without_the_agent_is_no_empty_node(warehouse: Warehouse) -> None:
    """All of it is unobserved: nobody knows who held the GPUs."""
    sets = [charge_set(START + hour * HOUR_NS, pods=["x"], nano=5) for hour in range(4)]
    for charges in sets:
        charges.texts = ["agent_gap" if text == "none" else "pool" if text == "pod" else text
                         for text in charges.texts]  # fmt: skip
        charges.used_ns[:] = charges.held_idle_ns[:] = charges.unallocated_ns[:] = 0
        charges.unobserved_ns[:] = 10 * NS_PER_S
    write(warehouse, sets)
    assert recommend(gather(warehouse, span(4)), Settings()) == []


def test_evidence_begins_with_the_ledger_where_that_is_younger(warehouse: Warehouse) -> None:
    """At the earliest with the hour that was asked from, as the hours are sums."""
    first = START + HOUR_NS + 1200 * NS_PER_S
    write(warehouse, [charge_set(first + number * 10 * NS_PER_S, pods=["a"], nano=7) for number in range(3)])
    found = gather(warehouse, Span(START // NS_PER_S, first // NS_PER_S + 60))
    assert found.span == Span(first // NS_PER_S, first // NS_PER_S + 60)
    later = gather(warehouse, Span(first // NS_PER_S + 1800, first // NS_PER_S + 3000))
    assert later.span.start_s == first // NS_PER_S


def test_the_command_writes_what_it_recommends(warehouse: Warehouse, tmp_path: Path) -> None:
    spec = fleet(4)
    plan = plan_node(spec, 0)
    ended = replace(plan, tenants=tuple(replace(t, end_ns=START + HOUR_NS) for t in plan.tenants))
    hourly(spec, [ended], warehouse)
    limits = tmp_path / "limits.yaml"
    limits.write_text("kind: recommendations\nnode_idle_hours: 2\n")
    end = "--until", f"{_instant(START + 4 * HOUR_NS)}"
    options = ["recommend", "--url", str(warehouse.url), "--since", "4h", *end, "--settings", str(limits)]
    result = CliRunner().invoke(app, [*options, "--json", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    (one,) = json.loads(result.output)
    assert one["rule"] == "node_after_work"
    assert one["saving_month_low_nano"] <= one["saving_month_nano"] <= one["saving_month_high_nano"]
    (written,) = (tmp_path / "out").rglob("*.yaml")
    assert yaml.safe_load(written.read_text())["kind"] == "NodePool"
    told = CliRunner().invoke(app, [*options, "--manifests"]).output
    for text in ("node after work", "saves", "a month", "risk", "consolidationPolicy", "Together"):
        assert text in told


def test_a_team_gets_what_is_its_own_and_the_node_that_it_held_last(warehouse: Warehouse) -> None:
    spec = fleet(4)
    plan = plan_node(spec, 0)
    ended = replace(plan, tenants=tuple(replace(t, end_ns=START + HOUR_NS) for t in plan.tenants))
    whole = hourly(spec, [ended], warehouse)
    (node,) = whole.nodes
    teams = {one.team for one in whole.workloads}
    assert len(teams) > 1
    for team in (*teams, "nobody"):
        own = gather(warehouse, span(4), team=team)
        assert own.workloads == [one for one in whole.workloads if one.team == team]
        assert own.nodes == ([node] if team == node.last_team else [])
        assert own.span == whole.span

    options = ["recommend", "--url", str(warehouse.url), "--since", "4h", "--json"]
    options += ["--until", _instant(START + 4 * HOUR_NS), "--team"]
    (found,) = json.loads(CliRunner().invoke(app, [*options, node.last_team]).output)
    assert (found["rule"], found["team"]) == ("node_after_work", node.last_team)
    assert json.loads(CliRunner().invoke(app, [*options, min(teams - {node.last_team})]).output) == []


def test_of_those_who_held_a_node_equally_long_the_same_is_named_whoever_asks(warehouse: Warehouse) -> None:
    """The last by name: which of them the engine came upon first says nothing."""
    for node, pods in (("n1", ["a", "b"]), ("n2", ["b", "a"])):
        charges = charge_set(START, pods=pods, node=node, nano=7)
        for name in ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns"):
            getattr(charges, name)[:] = 10 * NS_PER_S
        write(warehouse, [charges])
    found = gather(warehouse, span(1)).nodes
    assert {one.node: one.last_team for one in found} == {"n1": "team-b", "n2": "team-a"}


def test_the_command_names_models_of_which_no_slice_is_known(warehouse: Warehouse) -> None:
    charges = charge_set(START, pods=["x"])
    charges.texts = ["NVIDIA GB300" if text == "H100" else text for text in (*charges.texts, "exclusive")]
    charges.sharing[:] = len(charges.texts) - 1
    write(warehouse, [charges])
    options = ["recommend", "--url", str(warehouse.url), "--since", "1h"]
    options += ["--until", _instant(START + HOUR_NS)]
    assert "No slice and no sharing is recommended on NVIDIA GB300" in CliRunner().invoke(app, options).output
    found = CliRunner().invoke(app, [*options, "--json"])
    assert json.loads(found.stdout) == []
    assert "NVIDIA GB300" in found.stderr


def test_slices_that_nobody_can_take_are_no_team_s(warehouse: Warehouse) -> None:
    before = in_halves(START, 1)
    write(warehouse, before.charged(before.past, before.plans))
    whole = gather(warehouse, span(PAST_HOURS))
    assert whole.stranded
    assert not gather(warehouse, span(PAST_HOURS), team=whole.workloads[0].team).stranded


def test_what_is_promised_is_realised_when_it_is_done_on_the_simulator(warehouse: Warehouse) -> None:
    """Promised from the hours before; realised by the same fleet with the change and without it."""
    before = world(START, nodes=1)
    write(warehouse, before.charged(before.past, before.plans))
    found = recommend(gather(warehouse, span(PAST_HOURS)), before.settings)
    for change in ("scale_to_zero", "cut_into_slices", "remove_node"):
        (result,) = realised(before, found, only=change, most=1)
        assert result.realised_nano == pytest.approx(result.promised_nano, rel=0.05)
        assert result.low_nano <= result.realised_nano + ROUNDING_NANO
        assert result.realised_nano <= result.high_nano + ROUNDING_NANO


@pytest.mark.parametrize(
    ("fleet_of", "changes"),
    [
        (of_small_gpus, ("share_by_mps", "share_by_time_slices")),
        (in_halves, ("cut_anew",)),
    ],
    ids=["small GPUs", "GPUs in halves"],
)
def test_other_changes_realise_what_they_promise_too(
    warehouse: Warehouse, fleet_of: Callable[[int, int], World], changes: tuple[str, ...]
) -> None:
    before = fleet_of(START, 1)
    write(warehouse, before.charged(before.past, before.plans))
    found = recommend(gather(warehouse, span(PAST_HOURS)), before.settings)
    for change in changes:
        (result,) = realised(before, found, only=change, most=1)
        assert result.promised_nano > 0
        assert result.realised_nano == pytest.approx(result.promised_nano, rel=0.05)


def _instant(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS_PER_S, UTC).isoformat()
