"""What the files leave open is assumed as little as possible, and every assumption is said, in JSON too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.bills import (
    AGENT,
    ENGINE,
    LISTING,
    METRICS,
    NINE,
    PODS,
    PRICES,
    bill,
    exported,
    line,
    of_pod,
    printed,
    uuid,
    written,
)


def assumed(*arguments: str) -> str:
    """All assumptions; those of JSON are those that are printed."""
    found = bill(*arguments)["assumptions"]
    text = printed(*arguments)
    assert all(f"  - {one}\n" in text for one in found)
    return "\n".join(found)


def metrics(directory: Path, *labels: str, name: str = "m.txt") -> list[str]:
    """A scrape of GPU 0 with lines of the labels' pods."""
    return [
        "--samples",
        f"{written(directory, name, *(exported(ENGINE, 0, 0.5, one) for one in labels))}@{NINE}",
    ]


def test_a_whole_gpu_with_one_labelled_pod_stays_whole_whatever_the_replicas(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, of_pod("alone")), "--replicas", "8"]
    assert line(bill(*given), "alone")["entitlement"] == 1.0
    text = assumed(*given)
    assert "--replicas 8 is taken of no GPU: none is shared" in text
    assert "GPU-00000000: whole, one pod alone holds it and no vgpu label says that it has slots" in text


def test_replicas_are_taken_of_the_shared_devices_only_and_these_are_named() -> None:
    answer = bill(*METRICS, "--for", "1h", "--replicas", "8")
    assert line(answer, "resnet-train-0")["entitlement"] == 1.0
    assert line(answer, "finetune-0")["entitlement"] == 0.125
    text = assumed(*METRICS, "--for", "1h", "--replicas", "8")
    assert "--replicas 8 is taken of GPU-72aea9ce" in text
    assert "GPU-1f83cb94: whole" in text


def test_a_vgpu_label_says_that_a_gpu_has_slots_and_how_many_at_least(tmp_path: Path) -> None:
    """One pod in slot 3 of a GPU: it is shared, into four slots at least, of which the pod has one."""
    given = metrics(tmp_path, of_pod("one", 3))
    mine = line(bill(*given), "one")
    assert (mine["sharing"], mine["entitlement"]) == ("time_slicing", 0.25)
    assert (
        "GPU-00000000 has 4 slots, as many as its pods and their vgpu labels show (no --replicas)"
        in assumed(*given)
    )


def test_replicas_stand_in_for_the_slots_that_no_label_shows(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, of_pod("one", 0)), "--replicas", "10"]
    assert line(bill(*given), "one")["entitlement"] == 0.1
    assert "--replicas 10 is taken of GPU-00000000" in assumed(*given)


def test_a_pod_with_several_slots_holds_that_many(tmp_path: Path) -> None:
    given = metrics(tmp_path, of_pod("two", 0), of_pod("two", 1), of_pod("other", 2))
    answer = bill(*given)
    held = [line(answer, pod)["entitlement"] for pod in ("two", "other")]
    assert held == [pytest.approx(2 / 3), pytest.approx(1 / 3)]


def test_replicas_below_the_slots_that_are_seen_are_not_believed(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, of_pod("a", 0), of_pod("b", 3)), "--replicas", "2"]
    assert line(bill(*given), "a")["entitlement"] == 0.25
    assert "GPU-00000000 has 4 slots, since its pods have so many: not --replicas" in assumed(*given)


def test_replicas_beside_a_listing_that_says_what_there_is_are_not_used() -> None:
    given = [*METRICS, "--for", "1h", *LISTING, "--replicas", "8"]
    assert line(bill(*given), "finetune-0")["entitlement"] == 0.25
    assert "--replicas 8 is not used: the listing says what can be given out" in assumed(*given)


def listing(directory: Path, device: str, resource: str = "nvidia.com/gpu") -> list[str]:
    """A listing without what can be given out: pod ml/p has a device."""
    devices = [{"resourceName": resource, "deviceIds": [device]}]
    pods = [{"name": "p", "namespace": "ml", "containers": [{"name": "main", "devices": devices}]}]
    return ["--holdings", written(directory, "listing.json", json.dumps({"podResources": pods}))]


def test_replicas_are_taken_of_the_slots_of_a_listing(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, ""), *listing(tmp_path, f"{uuid(0)}::1"), "--replicas", "4"]
    assert line(bill(*given), "p")["entitlement"] == 0.25
    assert "--replicas 4 is taken of GPU-00000000" in assumed(*given)


def test_replicas_make_no_slots_of_the_whole_gpu_of_a_listing(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, ""), *listing(tmp_path, uuid(0)), "--replicas", "4"]
    assert line(bill(*given), "p")["entitlement"] == 1.0
    assert "--replicas 4 is taken of no GPU: the listing has no slots" in assumed(*given)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("NVIDIA H100 80GB HBM3", "7 MIG slices, as its model has: NVIDIA H100 80GB HBM3"),
        ("NVIDIA A30", "4 MIG slices, as its model has: NVIDIA A30"),
        ("NVIDIA RTX PRO 5000 Blackwell", "2 MIG slices, as its model has: NVIDIA RTX PRO 5000 Blackwell"),
        ("Rubin", "7 MIG slices, as most boards: its model is not known (Rubin)"),
    ],
)
def test_into_how_many_slices_a_board_is_cut_is_said(tmp_path: Path, model: str, said: str) -> None:
    mig = ',GPU_I_PROFILE="1g.6gb",GPU_I_ID="3"'
    lines = exported(ENGINE, 0, 0.5, mig + of_pod("p"), model=model)
    assert said in assumed("--samples", f"{written(tmp_path, 'm.txt', lines)}@{NINE}")


def test_an_instance_that_is_found_by_its_label_is_said(tmp_path: Path) -> None:
    mig = ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    mine = "MIG-4a5b6c7d-0000-1111-2222-333344445555"
    given = [*metrics(tmp_path, mig + of_pod("p")), *listing(tmp_path, mine, "nvidia.com/mig-1g.10gb")]
    said = f"{mine} of ml/p is instance 7 of GPU-00000000, as the pod labels of the scrape have it"
    assert said in assumed(*given)


def test_a_capacity_type_that_nobody_states_is_on_demand_and_that_is_said(tmp_path: Path) -> None:
    given = [*metrics(tmp_path, ""), *PRICES]
    assert "the nodes are on_demand (no --capacity-type)" in assumed(*given)
    assert "on_demand" not in assumed(*given, "--capacity-type", "spot")


def test_how_teams_are_found_without_rules_is_said(tmp_path: Path) -> None:
    assert "a pod's team is its label team, else its namespace" in assumed(*metrics(tmp_path, ""))


def test_a_price_per_node_says_of_how_many_gpus(tmp_path: Path) -> None:
    price = "{id: n, per: node, price_per_hour: 98.32}"
    prices = written(tmp_path, "prices.yaml", f"kind: prices\nprices: [{price}]\n")
    text = assumed(*metrics(tmp_path, ""), "--prices", prices)
    assert "n: a price per node is for the 1 GPUs that the files show" in text


def test_gpus_that_a_price_is_for_and_no_file_shows_are_said(tmp_path: Path) -> None:
    """Eight for 98.32, of which the scrape has one: 86.03 are charged as missing."""
    price = "{id: n, per: node, price_per_hour: 98.32, gpus_per_node: 8}"
    given = ["--prices", written(tmp_path, "prices.yaml", f"kind: prices\nprices: [{price}]\n")]
    answer = bill(*metrics(tmp_path, ""), *given)
    lost = [one["total_nano"] for one in answer["lines"] if one["reason"] == "device_lost"]
    assert lost == [86_030_000_000]
    said = "n: its price is for more GPUs than the files show: the others are charged as missing"
    assert said in assumed(*metrics(tmp_path, ""), *given)
    assert said not in assumed(*metrics(tmp_path, ""), *PRICES)


def test_a_node_without_a_name_is_said(tmp_path: Path) -> None:
    text = exported(ENGINE, 0, 0.5).replace('Hostname="n"', 'other="n"')
    given = ["--samples", f"{written(tmp_path, 'm.txt', text)}@{NINE}"]
    assert bill(*given)["lines"][0]["node"] == "node"
    assert "no label names the node" in assumed(*given)


def test_each_of_several_scrapes_speaks_for_the_time_before_it_and_that_is_said(tmp_path: Path) -> None:
    later = exported(ENGINE, 0, 0.5)
    given = ["--samples", f"{written(tmp_path, 'a.txt', later)}@2026-03-02T08:30:00Z", *metrics(tmp_path, "")]
    assert "each scrape speaks for all of the time since the one before" in assumed(*given)


def test_options_that_an_agents_records_leave_no_room_for_are_said() -> None:
    text = assumed(*AGENT, "--region", "eu-west-1", "--replicas", "4")
    assert "--region, --replicas: not used, an agent's records say it themselves" in text


def test_a_time_that_nobody_states_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, "m.txt", exported(ENGINE, 0, 0.5))
    text = assumed("--samples", file)
    assert "m.txt: its time is when the file was last written (say it: m.txt@TIME)" in text
    assert "the time charged is 1 h (no --for)" in text


def test_with_everything_stated_little_is_assumed() -> None:
    found = bill(*METRICS, "--for", "1h", *LISTING, *PODS, *PRICES, "--capacity-type", "on_demand")
    assert found["assumptions"] == [
        "no --teams: a pod's team is its label team, else its namespace",
        "all of the time was as the one scrape shows it",
        "who holds what was the same all the time",
    ]
