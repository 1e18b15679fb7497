"""`gpuledger charge` shares out idle and borrowed time by the team map's policies, or by `--policy`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from gpuledger.contract.errors import ConfigError, Refused
from tests.support.bills import (
    AGENT,
    ENGINE,
    HOUR_NANO,
    METRICS,
    NINE,
    PRICES,
    bill,
    exported,
    line,
    nano,
    of_pod,
    printed,
    written,
)
from tests.unit.test_charge_explained import check

DEFAULT = "burst=pay, entitlement=slots, mig=slices, idle=holders"
POOL = "burst=pay, entitlement=slots, mig=slices, idle=pool"
EXAMPLE = [*METRICS, "--for", "1h", *PRICES]


def half_idle(directory: Path) -> list[str]:
    """A GPU at 12.29 that one pod holds for an hour, of which it works half."""
    file = written(directory, "half.txt", exported(ENGINE, 0, 0.5, of_pod("p")))
    return ["--samples", f"{file}@{NINE}", "--for", "1h", *PRICES]


def teams(directory: Path, *policies: str) -> list[str]:
    """A team map with these policies."""
    text = "kind: teams\npolicies:\n" + "".join(f"  - {{{one}}}\n" for one in policies)
    return ["--teams", written(directory, "teams.yaml", text)]


def decisions(answer: dict[str, Any]) -> list[str]:
    return [said for said in answer["assumptions"] if said.startswith("policy ")]


def pool(answer: dict[str, Any], reason: str) -> int:
    """What the pool pays for that reason, in nano."""
    mine = [one for one in answer["lines"] if (one["consumer_kind"], one["reason"]) == ("pool", reason)]
    return sum(one["total_nano"] for one in mine)


def test_without_a_policy_held_idle_is_its_holders_and_nothing_had_to_be_decided(tmp_path: Path) -> None:
    answer = bill(*half_idle(tmp_path))
    assert line(answer, "p")["held_idle_nano"] == nano(6.145)
    assert decisions(answer) == []


def test_a_policy_of_the_team_map_is_used_and_said(tmp_path: Path) -> None:
    """`idle: pool` takes the idle half, 6.145, off the holder."""
    answer = bill(*half_idle(tmp_path), *teams(tmp_path, "id: house, idle: pool"))
    assert line(answer, "p")["total_nano"] == nano(6.145)
    assert pool(answer, "held") == nano(6.145)
    assert answer["total"]["total_nano"] == HOUR_NANO
    assert {one["policy"] for one in answer["lines"]} == {"pay/60s/idle=pool"}
    assert decisions(answer) == [f"policy {POOL} in a cluster without a name (--cluster) (house of --teams)"]


@pytest.mark.parametrize(
    ("cluster", "said", "held"),
    [
        ("west", f"policy {POOL} in cluster west (house of --teams)", 6.145),
        ("east", f"policy {DEFAULT} in cluster east (own of --teams)", 0),
    ],
)
def test_a_cluster_has_its_own_policy_before_that_of_all(
    tmp_path: Path, cluster: str, said: str, held: float
) -> None:
    given = teams(tmp_path, "id: house, idle: pool", "id: own, cluster: east, idle: holders")
    answer = bill(*half_idle(tmp_path), *given, "--cluster", cluster)
    assert decisions(answer) == [said]
    assert pool(answer, "held") == nano(held)


def test_where_none_holds_the_default_does_and_that_is_said(tmp_path: Path) -> None:
    answer = bill(
        *half_idle(tmp_path), *teams(tmp_path, "id: own, cluster: east, idle: pool"), "--cluster", "west"
    )
    assert decisions(answer) == [f"policy {DEFAULT} in cluster west: none of --teams holds there"]
    assert pool(answer, "held") == 0


def test_a_policy_that_begins_inside_the_time_holds_from_its_instant_on(tmp_path: Path) -> None:
    """From 08:30 on, half of the hour: half of the idle money, 3.0725, is the pool's."""
    for begins, held in (("08:30:00", 3.0725), ("08:15:00", 0.75 * 6.145)):
        given = teams(tmp_path, f"id: late, idle: pool, effective_from: '2026-03-02T{begins}Z'")
        answer = bill(*half_idle(tmp_path), *given, "--cluster", "c")
        assert pool(answer, "held") == nano(held)
        assert decisions(answer) == [
            f"policy {DEFAULT} in cluster c: none of --teams holds there",
            f"policy {POOL} in cluster c (late of --teams) from 2026-03-02T{begins}Z on",
        ]


def test_the_command_line_goes_before_the_team_map(tmp_path: Path) -> None:
    given = [*half_idle(tmp_path), *teams(tmp_path, "id: house, idle: pool")]
    answer = bill(*given, "--policy", "burst=reserved_first")
    assert decisions(answer) == [
        "policy burst=reserved_first, entitlement=slots, mig=slices, idle=holders (--policy); "
        "the policies of --teams are not used"
    ]
    assert {one["policy"] for one in answer["lines"]} == {"reserved_first/60s"}
    assert line(answer, "p")["total_nano"] == HOUR_NANO
    assert decisions(bill(*half_idle(tmp_path), "--policy", "idle=pool")) == [f"policy {POOL} (--policy)"]


def test_who_borrows_pays_or_the_lender_does(tmp_path: Path) -> None:
    """Two slots of a GPU: P works 0.75 of the hour, Q not at all. Q lent 0.25, 3.0725: who pays it is the
    policy's."""
    file = written(
        tmp_path,
        "two.txt",
        exported(ENGINE, 0, 0.75, of_pod("p", 0)),
        exported(ENGINE, 0, 0.75, of_pod("q", 1)),
        exported("DCGM_FI_DEV_GPU_UTIL", 0, 75, of_pod("p", 0)),
        exported("DCGM_FI_DEV_GPU_UTIL", 0, 0, of_pod("q", 1)),
    )
    given = ["--samples", f"{file}@{NINE}", "--for", "1h", *PRICES, "--replicas", "2"]
    paid = {name: total(bill(*given, "--policy", f"burst={name}"), "p") for name in ("pay", "reserved_first")}
    assert paid == {"pay": nano(0.75 * 12.29), "reserved_first": nano(0.5 * 12.29)}


def total(answer: dict[str, Any], pod: str) -> int:
    return sum(one["total_nano"] for one in answer["lines"] if one["pod"] == pod)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ("idle", ConfigError, "--policy: 'idle' is not NAME=VALUE"),
        (
            "idel=pool",
            ConfigError,
            "no such policy as idel; there are burst, entitlement, mig, idle",
        ),
        ("idle=none", Refused, "idle policy 'none' is not one of holders, pool, cluster"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, asked: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        printed(*half_idle(tmp_path), "--policy", asked)


SETTINGS = {
    "burst": ("pay", "reserved_first"),
    "entitlement": ("slots", "max(slots,memory)"),
    "idle": ("holders", "pool"),
}


@pytest.mark.parametrize(
    "settings",
    [one for one in itertools.product(*SETTINGS.values()) if not (one[0] != "pay" and one[2] != "holders")],
)
def test_under_every_policy_each_amount_follows_from_the_arithmetic_that_is_printed(
    settings: tuple[str, ...],
) -> None:
    asked = [f"--policy={name}={value}" for name, value in zip(SETTINGS, settings, strict=True)]
    check(*EXAMPLE, "--replicas", "4", *asked)
    check(*AGENT, *PRICES, *asked)


def test_the_arithmetic_begins_with_what_was_decided(tmp_path: Path) -> None:
    given = [*half_idle(tmp_path), *teams(tmp_path, "id: house, idle: pool"), "--cluster", "c"]
    answer = bill(*given, "--explain")
    assert answer["explanation"][2] == f"  policy {POOL} in cluster c (house of --teams)"
    text = "\n".join(answer["explanation"])
    assert "unallocated = C x (1 - A) x the sum of max(0, e - a) / Z" in text


def test_an_agents_records_are_charged_by_the_policy_of_their_own_cluster(tmp_path: Path) -> None:
    (cluster,) = {one["cluster"] for one in bill(*AGENT)["lines"]}
    answer = bill(*AGENT, *teams(tmp_path, f"id: own, cluster: {cluster}, idle: pool"))
    assert decisions(answer) == [f"policy {POOL} in cluster {cluster} (own of --teams)"]
    assert sum(one["held_idle_ns"] for one in answer["lines"]) == 0
