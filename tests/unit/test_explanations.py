"""`gpuledger teams explain` and `gpuledger prices explain`: the decision, and why nothing else decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpuledger.configuration import prices_cli, teams_cli
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import PriceBookVersion, PriceEntry, TeamMapVersion, TeamRule
from gpuledger.pricing import Consumer, PriceBook, PricedDevice, TeamMap
from gpuledger.pricing.explain import entry_mismatches, explain_price, explain_team, rule_mismatches
from gpuledger.pricing.teams import _applies

TEAMS = """\
kind: teams
default_team: nobody
rules:
  - id: by-label
    from_label: team
    priority: 10
  - {id: research, team: research, match: {namespace: "research-*"}}
  - {id: old, team: old, match: {namespace: research-1}, effective_to: 2025-01-01}
  - {id: web, team: web, match: {owner_kind: Deployment, owner_name: "web-*"}}
  - {id: gold, team: gold, match: {cluster: a, node_pool: gold, annotations: {tier: "1"}}}
  - {id: all-research, team: other, match: {namespace: "research-*"}}
"""
AT = ("--at", "2025-07-01T00:00:00Z")


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    path = tmp_path / "teams.yaml"
    path.write_text(TEAMS)
    return path


def explained(teams: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(teams_cli.app, ["explain", *arguments, "--file", str(teams), *AT, "--json"])
    if done.exception is not None:
        raise done.exception
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_rule_that_decides_is_named_with_file_and_line_and_the_others_with_why_not(teams: Path) -> None:
    answer = explained(teams, "research-1/train", "--cluster", "b")
    assert (answer["team"], answer["rule"], answer["where"]) == ("research", "research", f"{teams}:7")
    why_not = {one["id"]: one["why_not"] for one in answer["considered"]}
    assert why_not == {
        "by-label": ["it has no label team to take the team from"],
        "research": [],
        "old": ["it held only until 2025-01-01T00:00:00Z"],
        "web": ["owner_kind is not known, not Deployment", "owner_name is not known, not web-*"],
        "gold": ["cluster is b, not a", "node_pool is not known, not gold", "it has no annotation tier"],
        "all-research": ["it matches, but research goes first"],
    }


def test_labels_annotations_owner_and_pool_are_given_by_hand(teams: Path) -> None:
    assert explained(teams, "research-1/train", "-l", "team=vision,x=y")["team"] == "vision"
    assert explained(teams, "shop/web-1", "--owner", "Deployment/web-7f")["rule"] == "web"
    gold = explained(teams, "x/y", "--cluster", "a", "--node-pool", "gold", "--annotations", "tier=1")
    assert gold["rule"] == "gold"


def test_what_nobody_claims_goes_to_the_default_team_and_says_so(teams: Path) -> None:
    answer = explained(teams, "shop/web-1")
    assert (answer["team"], answer["rule"]) == ("nobody", None)
    assert answer["otherwise"] == "default_team: nobody claims it"


def test_people_get_sentences_and_a_table(teams: Path) -> None:
    done = CliRunner().invoke(teams_cli.app, ["explain", "research-1/train", "--file", str(teams), *AT])
    first, second = done.stdout.splitlines()[:2]
    assert first == f"research: rule research, {teams}:7"
    assert second == "At 2025-07-01T00:00:00Z, knowing: kind pod, namespace research-1."
    assert "owner_kind is not known, not Deployment" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["train"], "has no namespace"),
        (["a/b", "-l", "team"], "'team' is no key=value"),
        (["a/b", "--at", "yesterday"], "--at: 'yesterday' is no instant"),
    ],
)
def test_a_mistake_in_the_call_is_one_line(teams: Path, arguments: list[str], what: str) -> None:
    done = CliRunner().invoke(teams_cli.app, ["explain", "--file", str(teams), *arguments])
    assert isinstance(done.exception, ConfigError)
    assert what in str(done.exception)


words = st.sampled_from(["", "a", "a*", "ab", "b"])
values = st.sampled_from(["", "a", "ab", "b"])
labels = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["", "1", "2"]))
kinds = st.sampled_from(["pod", "pool", "host_process"])
rules = st.builds(
    TeamRule,
    id=st.just("r"),
    team=st.sampled_from(["", "t"]),
    label_key=st.just("k"),
    cluster=values,
    namespace=words,
    labels=labels,
    annotations=labels,
    owner_kind=values,
    owner_name=words,
    node_pool=values,
    consumer_kind=st.sampled_from(["", "pod", "pool"]),
    priority=st.integers(0, 1),
    effective_from_ns=st.integers(0, 2),
    effective_to_ns=st.none() | st.integers(3, 4),
)
consumers = st.builds(
    Consumer,
    kind=kinds,
    cluster=values,
    node_pool=values,
    namespace=values,
    owner_kind=values,
    owner_name=values,
    labels=labels,
    annotations=labels,
)


@settings(max_examples=500, deadline=None)
@given(rules, consumers, st.integers(0, 5))
def test_a_rule_has_a_reason_not_to_apply_exactly_where_it_does_not(rule, consumer, at):
    assert _applies(rule, consumer, at) == (not list(rule_mismatches(rule, consumer, at)))


@settings(deadline=None)
@given(st.lists(rules, max_size=4), consumers, st.integers(0, 5))
def test_the_explained_team_is_the_charged_one(found, consumer, at):
    named = [
        TeamRule(f"rule-{i}", *(getattr(r, n) for n in TeamRule.__slots__[1:])) for i, r in enumerate(found)
    ]
    teams = TeamMap(TeamMapVersion(1, 0, rules=named))
    decision = explain_team(teams, consumer, at)
    assert decision.team == teams.team_of(consumer, at)
    assert [one.id for one in decision.considered if not one.reasons] == (
        [decision.rule] if decision.rule else []
    )
    assert bool(decision.rule) != bool(decision.otherwise)


PRICES = """\
kind: prices
prices:
  - {id: any, per: gpu, price_per_hour: 1}
  - {id: h100, per: gpu, price_per_hour: 2, match: {gpu_model: H100}}
  - {id: deal, per: gpu, price_per_hour: 0.5, priority: 1, match: {cluster: c}, effective_to: 2025-01-01}
spot:
  - id: spot
    per: gpu
    match: {gpu_model: H100}
    known_until: 2025-06-01
    prices: [{from: 2025-01-01, price_per_hour: 0.7}, {from: 2025-05-01, price_per_hour: 0.8}]
"""


def test_the_price_that_applies_is_named_with_its_line_and_the_others_with_why_not(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    arguments = ["explain", "--file", str(path), "--cluster", "c", "--gpu-model", "H100", *AT]
    answer = json.loads(CliRunner().invoke(prices_cli.app, [*arguments, "--json"]).stdout)
    assert (answer["price"], answer["unit_price_per_hour"]) == ("h100", "2.000000000")
    assert [(one["id"], one["where"]) for one in answer["considered"]] == [
        ("h100", f"{path}:4"),
        ("any", f"{path}:3"),
        ("deal", f"{path}:5"),
        ("spot", f"{path}:7"),
        ("spot:provisional", f"{path}:7"),
    ]
    why_not = [one["why_not"] for one in answer["considered"]]
    assert why_not[0] == []
    assert "h100 goes first: priority 0 and 1 matched attributes against 0 and 0" in why_not[1][0]
    assert why_not[2] == ["it held only until 2025-01-01T00:00:00Z"]
    spot = json.loads(
        CliRunner().invoke(prices_cli.app, [*arguments, "--capacity-type", "spot", "--json"]).stdout
    )
    assert (spot["price"], spot["provisional"]) == ("spot:provisional", True)


def test_a_device_without_a_price_is_told_what_becomes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("kind: prices\nprices: [{id: a, per: gpu, price_per_hour: 1, match: {cluster: c}}]\n")
    done = CliRunner().invoke(prices_cli.app, ["explain", "--file", str(path), *AT])
    assert "charged in GPU time, with its money missing" in done.stdout
    assert "cluster is not known, not c" in done.stdout


@settings(deadline=None)
@given(
    st.lists(st.tuples(values, values, st.integers(0, 1), st.integers(0, 4)), max_size=5),
    values,
    values,
    st.integers(0, 5),
)
def test_the_explained_price_is_the_charged_one(stated, cluster, model, at):
    entries = [
        PriceEntry(
            f"p{i}", "gpu", 1, "USD", cluster=c, gpu_model=m, priority=priority, effective_from_ns=since
        )
        for i, (c, m, priority, since) in enumerate(stated)
    ]
    book = PriceBook(PriceBookVersion(1, 0, entries=entries))
    device = PricedDevice(cluster=cluster, gpu_model=model)
    decision = explain_price(book, device, at)
    assert decision.entry is book.entry(device, at)
    assert {one.id for one in decision.considered} == {entry.id for entry in entries}
    if decision.entry is not None:
        assert not list(entry_mismatches(decision.entry, device, at))
        assert decision.considered[0] == (decision.entry.id, "per gpu", ())
