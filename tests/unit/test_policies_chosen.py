"""A policy is chosen in the team map: by cluster and time, checked, and named on the row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.configuration.diff import diff
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import (
    Device,
    Generation,
    NodeLayout,
    PolicyRule,
    TeamMapVersion,
    decode,
    encode,
)
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing import Prices, TeamMap, Teams
from gpuledger.pricing.changes import team_changes
from gpuledger.pricing.yaml_documents import InvalidDocument, read_teams
from gpuledger.processor.charging import Configuration, charge
from gpuledger.processor.protocol import Decision, Label

START = 1_700_000_040 * NS_PER_S
LAYOUT = NodeLayout(devices=[Device("GPU-0", index=0)])
DOCUMENT = """\
kind: teams
policies:
  - id: everywhere
    idle: pool
  - id: east
    cluster: east
    mig: dominant
    effective_from: 2023-11-14T22:14:00Z
"""
POOL = {"burst": "pay", "entitlement": "slots", "mig": "slices", "idle": "pool"}
EAST = {"burst": "pay", "entitlement": "slots", "mig": "dominant", "idle": "holders"}


def test_a_cluster_has_its_own_policy_while_it_holds_and_the_one_for_all_else() -> None:
    teams = TeamMap(read_teams(DOCUMENT, "teams.yaml"))
    assert teams.policy_of("west", START) == teams.policy_of("east", START - 1) == POOL
    assert teams.policy_of("east", START) == EAST
    assert TeamMap.empty().policy_of("east", START) == {}


def test_policies_survive_the_wire() -> None:
    version = read_teams(DOCUMENT, "teams.yaml")
    assert decode(TeamMapVersion, encode(version)) == version


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        (("  - id: b", "    idle: pool"), 5, "it overlaps with a in time, for all clusters"),
        (("  - id: b", "    burst: borrow"), 6, "'pay' or 'reserved_first'"),
        (
            ("  - id: b", "    cluster: x", "    burst: reserved_first", "    idle: pool"),
            5,
            "does not go with",
        ),
        (("  - id: a", "    cluster: x"), 5, "the id a is there twice"),
    ],
)
def test_what_can_not_hold_is_refused_with_its_line(lines: tuple[str, ...], line: int, what: str) -> None:
    text = "\n".join(("kind: teams", "policies:", "  - id: a", "    mig: dominant", *lines)) + "\n"
    with pytest.raises(InvalidDocument) as caught:
        read_teams(text, "teams.yaml")
    (problem,) = caught.value.problems
    assert problem.startswith(f"teams.yaml:{line}: ")
    assert what in problem


def charged(*, cluster: str, generation: Generation | None = None) -> str:
    """The policy that a row of an unobserved window names."""
    teams = Teams([read_teams(DOCUMENT, "teams.yaml")])
    known = {} if generation is None else {generation.number: generation}
    number = 0 if generation is None else generation.number
    life = ((START, START + 10 * NS_PER_S),)
    revision = Revision(number, 0, 0, CORE_VERSION)
    decision = Decision(NodeKey(cluster, "n"), START, Label.UNOBSERVED, revision, life, (), LAYOUT)
    (one,) = charge([(0, decision)], {}, lambda _: 10 * NS_PER_S, Configuration(Prices(), teams, known))
    return one.record.texts[int(one.record.policy[0])]


def test_the_row_names_the_policy_of_its_cluster_and_a_generation_goes_before_it() -> None:
    assert charged(cluster="east") == "pay/10s/mig=dominant"
    assert charged(cluster="west") == "pay/10s/idle=pool"
    pinned = Generation(1, 0, 0, START * 2, 0, 1)
    assert charged(cluster="west", generation=pinned) == "pay/10s/idle=pool"
    assert charged(cluster="west", generation=replace(pinned, team_version=0)) == "pay/10s"
    assert charged(cluster="west", generation=replace(pinned, policy={"burst": "pay"})) == "pay/10s"


def test_another_policy_changes_the_time_that_it_holds_for_and_is_shown() -> None:
    old = TeamMapVersion(1, 0, policies=[PolicyRule("a")])
    named = TeamMapVersion(2, 0, policies=[PolicyRule("b"), PolicyRule("x", cluster="x")])
    assert team_changes(old, named) == []
    new = TeamMapVersion(2, 0, policies=[PolicyRule("a", effective_to_ns=3 * MINUTE_NS)])
    new.policies.append(
        PolicyRule("c", idle="pool", effective_from_ns=3 * MINUTE_NS, effective_to_ns=5 * MINUTE_NS)
    )
    assert team_changes(old, new) == [(3 * MINUTE_NS, 5 * MINUTE_NS)]
    assert {(line.sign, line.id) for line in diff(old, new)} == {("~", "a"), ("+", "c")}
