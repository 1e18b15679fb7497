"""Each option of `gpuledger charge` has an effect, and this is it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.bills import (
    AGENT,
    ENGINE,
    EXAMPLES,
    H100,
    HOUR_NANO,
    LISTING,
    METRICS,
    NINE,
    PODS,
    PRICES,
    SECOND,
    bill,
    exported,
    line,
    nano,
    of_pod,
    printed,
    scrape,
    written,
)

EXAMPLE = [*METRICS, "--for", "1h"]
TEAMS = ["--teams", str(EXAMPLES / "teams.yaml")]
PLACES = {
    "--cluster": ("cluster", "prod"),
    "--instance-type": ("instance_type", "p5.48xlarge"),
    "--capacity-type": ("capacity_type", "spot"),
    "--region": ("region", "eu-west-1"),
    "--zone": ("zone", "eu-west-1a"),
    "--node-pool": ("node_pool", "training"),
}
"""Option -> what a price matches by it, and a value."""


def price_list(directory: Path, **match: str) -> list[str]:
    """7 an hour for what matches, and no price for anything else."""
    wanted = ", ".join(f"{name}: {value}" for name, value in match.items())
    text = f"kind: prices\nprices:\n  - {{id: special, per: gpu, price_per_hour: 7, match: {{{wanted}}}}}\n"
    return ["--prices", written(directory, "special.yaml", text)]


@pytest.mark.parametrize("option", PLACES)
def test_a_price_for_a_place_applies_where_the_option_says_that_the_nodes_are_there(
    tmp_path: Path, option: str
) -> None:
    name, value = PLACES[option]
    prices = price_list(tmp_path, **{name: value})
    with_it = bill(*EXAMPLE, *prices, option, value)
    assert with_it["total"]["total_nano"] == 3 * 7 * SECOND
    assert {tuple(one["price_ids"]) for one in with_it["lines"]} == {("special",)}
    for arguments in ([], [option, f"{value}-other"]):
        without = bill(*EXAMPLE, *prices, *arguments)
        assert (without["total"]["total_nano"], without["unpriced_ns"]) == (None, 3 * 3600 * SECOND)


@pytest.mark.parametrize("option", ["--instance-type", "--capacity-type", "--region", "--zone", "--cluster"])
def test_a_line_says_where_its_node_is(option: str) -> None:
    name, value = PLACES[option]
    assert {one[name] for one in bill(*EXAMPLE, option, value)["lines"]} == {value}


@pytest.mark.parametrize(
    ("option", "match"), [("--cluster", "cluster: prod"), ("--node-pool", "node_pool: training")]
)
def test_a_team_rule_for_a_place_holds_there(tmp_path: Path, option: str, match: str) -> None:
    rules = f"kind: teams\nrules:\n  - {{id: there, team: infrastructure, match: {{{match}}}}}\n"
    given = [*EXAMPLE, "--teams", written(tmp_path, "teams.yaml", rules)]
    value = PLACES[option][1]
    assert line(bill(*given, option, value), "finetune-0")["team"] == "infrastructure"
    assert line(bill(*given), "finetune-0")["team"] == "research"


def test_team_rules_decide_who_pays_and_name_the_cost_centre() -> None:
    """Without rules the label `team` decides, and without labels the namespace."""
    answer = bill(*EXAMPLE, *PRICES, *LISTING, *PODS, *TEAMS)
    ranker = line(answer, "ranker-7d9f8c6b5-x2x7k")
    assert (ranker["team"], ranker["cost_centre"]) == ("search", "CC-2100")
    train = line(answer, "resnet-train-0")
    assert (train["team"], train["cost_centre"]) == ("vision", "CC-1200")
    assert not any("--teams" in text for text in answer["assumptions"])


def test_whom_no_rule_claims_is_shown_as_such() -> None:
    """Without the pods' owners no rule holds for namespace serving: the default team has them."""
    answer = bill(*EXAMPLE, *LISTING, *TEAMS)
    assert line(answer, "embedder-5c4b7d9f6-q8wzt")["team"] == "unclaimed"
    assert {team["team"] for team in answer["teams"]} == {"vision", "unclaimed", "(pool)"}


def test_a_team_rule_that_begins_inside_the_time_divides_the_line(tmp_path: Path) -> None:
    """From 08:15 on the research namespace is another team's: 15 minutes and 45."""
    rules = [
        "{id: old, team: old, match: {namespace: research}, effective_to: 2026-03-02T08:15:00Z}",
        "{id: new, team: new, match: {namespace: research}, effective_from: 2026-03-02T08:15:00Z}",
    ]
    text = "kind: teams\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    answer = bill(*EXAMPLE, *PRICES, "--teams", written(tmp_path, "teams.yaml", text))
    train = {one["team"]: one["total_nano"] for one in answer["lines"] if one["pod"] == "resnet-train-0"}
    assert train == {"old": nano(12.29 / 4), "new": nano(12.29 * 3 / 4)}


def test_the_name_of_the_node_is_what_the_option_says() -> None:
    assert {one["node"] for one in bill(*EXAMPLE, "--node", "gpu-node-7")["lines"]} == {"gpu-node-7"}
    assert "Who pays (GPU-hours; gpu-node-7;" in printed(*EXAMPLE, "--node", "gpu-node-7")


def test_only_the_pods_of_that_node_hold_its_devices() -> None:
    """The example's pods are on gpu-node-1: on another node nobody is known by them."""
    found = bill(*EXAMPLE, *PODS, "--node", "gpu-node-7")
    assert {one["workload"] for one in found["lines"]} == {""}


def test_the_model_of_gpus_that_no_scrape_shows_prices_them() -> None:
    given = [*LISTING, "--for", "1h", "--at", NINE, *PRICES]
    assert bill(*given, "--gpu-model", H100)["total"]["total_nano"] == 3 * HOUR_NANO
    assert bill(*given)["total"]["total_nano"] is None


def test_at_says_when_the_only_scrape_was_taken(tmp_path: Path) -> None:
    file = scrape(tmp_path, "m.txt", (ENGINE, 0, 0.5))
    answer = bill("--samples", file, "--at", NINE, "--for", "10m")
    assert (answer["from"], answer["to"]) == ("2026-03-02T08:50:00Z", NINE)


def used(answer: dict[str, Any], pod: str) -> tuple[float | None, float | None]:
    mine = line(answer, pod)
    return mine["sm_active"], mine["used_ns"]


def test_a_scrape_beside_an_agents_records_says_what_the_agent_did_not(tmp_path: Path) -> None:
    """The agent's samples have no FB_USED, the scrape has: it adds that alone. The used time is the same."""
    alone = bill(*AGENT)
    device = line(alone, "training-0-6")["device"]
    labels = f'gpu="2",UUID="{device}",modelName="NVIDIA A100-SXM4-40GB",Hostname="node-00000"'
    file = written(tmp_path, "m.txt", f"DCGM_FI_DEV_FB_USED{{{labels}}} 30000\n")
    beside = bill(*AGENT, "--samples", f"{file}@2026-03-02T09:00:20Z", "--for", "20s")
    assert used(beside, "training-0-6") == used(alone, "training-0-6")
    assert line(alone, "training-0-6")["device_framebuffer_used_bytes"] is None
    assert line(beside, "training-0-6")["device_framebuffer_used_bytes"] == 30000 << 20
    assert "the scrapes are taken to be of the node that sent the records" in beside["assumptions"]


def test_memory_beside_an_agents_records_that_no_process_has_is_nobodys(tmp_path: Path) -> None:
    """The agent sees 11.33 GiB of training-0-6; the rest of the 30000 MiB of the scrape is nobody's."""
    alone = line(bill(*AGENT), "training-0-6")
    labels = f'gpu="2",UUID="{alone["device"]}",Hostname="node-00000"'
    file = written(tmp_path, "m.txt", f"DCGM_FI_DEV_FB_USED{{{labels}}} 30000\n")
    beside = bill(*AGENT, "--samples", f"{file}@2026-03-02T09:00:20Z", "--for", "20s")
    (nobodys,) = beside["unbooked_memory"]
    assert nobodys["device"] == alone["device"]
    assert nobodys["mean_bytes"] == pytest.approx((30000 << 20) - alone["memory_bytes"])


def test_for_cuts_several_scrapes_to_the_last_of_the_time(tmp_path: Path) -> None:
    files = [
        f"{written(tmp_path, f'{name}.txt', exported(ENGINE, 0, 0.5, of_pod('p')))}@2026-03-02T{name}:00Z"
        for name in ("08:00", "09:00")
    ]
    given = [argument for file in files for argument in ("--samples", file)]
    assert bill(*given, "--for", "10m")["from"] == "2026-03-02T08:50:00Z"
