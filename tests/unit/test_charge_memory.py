"""`gpuledger charge` knows how many slices and how much memory a device has, and charges by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.bills import ENGINE, H100, METRICS, NINE, bill, exported, line, nano, of_pod, written

PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
USED, FREE, TOTAL = (f"DCGM_FI_DEV_FB_{what}" for what in ("USED", "FREE", "TOTAL"))
BY_MEMORY = ["--policy", "entitlement=max(slots,memory)"]
FRACTIONS = "entitlement=max(slots,memory) is by slots there"


def instance(number: int, profile: str, pod: str, busy: float = 0.0, model: str = H100) -> str:
    """A line of a MIG instance that a pod holds."""
    labels = f',GPU_I_PROFILE="{profile}",GPU_I_ID="{number}"'
    return exported(ENGINE, 0, busy, labels + of_pod(pod), model=model)


def charged(directory: Path, *lines: str) -> list[str]:
    """The options of an hour of a scrape, at 12.29 an hour for any GPU."""
    prices = "kind: prices\nprices: [{id: any, per: gpu, price_per_hour: 12.29}]\n"
    scrape = f"{written(directory, 'm.txt', *lines)}@{NINE}"
    return ["--samples", scrape, "--for", "1h", "--prices", written(directory, "p.yaml", prices)]


def pool(answer: dict[str, Any]) -> dict[str, int]:
    """What the pool pays, by reason."""
    return {one["reason"]: one["total_nano"] for one in answer["lines"] if one["consumer_kind"] == "pool"}


def test_an_instance_of_a_board_with_four_slices_costs_a_quarter(tmp_path: Path) -> None:
    """1g.24gb of an RTX PRO 6000 is 1 of 4: 12.29 / 4 = 3.0725, of which half was used; 9.2175 are free."""
    answer = bill(*charged(tmp_path, instance(3, "1g.24gb", "p", 0.5, PRO_6000)))
    assert line(answer, "p", "MIG-")["used_nano"] == nano(1.53625)
    assert line(answer, "p", "MIG-")["held_idle_nano"] == nano(1.53625)
    assert pool(answer) == {"free": nano(9.2175)}


def test_slices_that_no_memory_is_left_for_are_stranded_and_say_through_whom(tmp_path: Path) -> None:
    """Two 3g.40gb have 3 of 7 slices and 4 of 8 memory slices each: the seventh slice can be nobody's, and is
    12.29 / 7 = 1.755714286."""
    answer = bill(*charged(tmp_path, instance(1, "3g.40gb", "p"), instance(2, "3g.40gb", "q")))
    assert line(answer, "p", "MIG-")["total_nano"] == nano(12.29 * 3 / 7)
    assert pool(answer) == {"stranded": nano(1.755714286)}
    (rest,) = (one for one in answer["lines"] if one["reason"] == "stranded")
    assert rest["mig_profile"] == "3g.40gb#1+3g.40gb#2"


def test_the_text_of_a_profile_may_be_a_gigabyte_beside(tmp_path: Path) -> None:
    """dcgm-exporter#544: an H100 NVL shows 1g.11gb where 1g.12gb was made, one of eight memory slices all the
    same. Each of seven is a seventh by its slices, and nothing is left."""
    model = "NVIDIA H100 NVL"
    lines = [instance(7 + i, "1g.11gb", f"p{i}", model=model) for i in range(7)]
    answer = bill(*charged(tmp_path, *lines), "--policy", "mig=dominant")
    assert line(answer, "p0", "MIG-")["total_nano"] == nano(12.29 / 7)
    assert pool(answer) == {}


def test_a_dominant_instance_costs_its_greater_part(tmp_path: Path) -> None:
    """Half of the memory, though 3 of 7 slices: 6.145 each, and nothing is left."""
    lines = instance(1, "3g.40gb", "p"), instance(2, "3g.40gb", "q")
    answer = bill(*charged(tmp_path, *lines), "--policy", "mig=dominant")
    assert [line(answer, pod, "MIG-")["total_nano"] for pod in "pq"] == [nano(6.145)] * 2
    assert pool(answer) == {}
    assert f"n: GPU-00000000 has 80 GiB of memory, as its model has: {H100}" in answer["assumptions"]


def test_a_holder_of_much_memory_is_entitled_to_its_part_of_it() -> None:
    """finetune-0 keeps 20,781 MiB of 80 GiB = 81,920: 0.25367 instead of a slot's 0.25. The example's others
    keep less than a slot's part."""
    answer = bill(*METRICS, "--for", "1h", "--replicas", "4", *BY_MEMORY)
    assert line(answer, "finetune-0")["entitlement"] == pytest.approx(20_781 / 81_920)
    assert line(answer, "embedder-5c4b7d9f6-q8wzt")["entitlement"] == 0.25
    said = "gpu-node-1: GPU-72aea9ce has 80 GiB of memory, as its model has: NVIDIA H100 80GB HBM3"
    assert said in answer["assumptions"]


def sliced(used: float) -> list[str]:
    """A GPU in two slots; pod p keeps ``used`` MiB."""
    return [
        exported(ENGINE, 0, 0.5),
        exported(USED, 0, used + 1000),
        exported(USED, 0, used, of_pod("p", 0)),
        exported(USED, 0, 1000, of_pod("q", 1)),
    ]


@pytest.mark.parametrize("how", ["total", "used and free"])
def test_memory_that_an_exporter_shows_goes_before_that_of_the_model(tmp_path: Path, how: str) -> None:
    """30,000 of 40,000 MiB are 0.75, q has a slot's half: by their sum 0.6 and 0.4."""
    shown = exported(TOTAL, 0, 40_000) if how == "total" else exported(FREE, 0, 9_000)
    answer = bill(*charged(tmp_path, *sliced(30_000), shown), *BY_MEMORY)
    assert line(answer, "p")["entitlement"] == pytest.approx(0.6)
    assert not any("of memory" in said for said in answer["assumptions"])


def test_where_memory_is_not_known_it_is_said_that_the_policy_has_no_effect(tmp_path: Path) -> None:
    lines = [text.replace(H100, "Rubin") for text in sliced(30_000)]
    answer = bill(*charged(tmp_path, *lines), *BY_MEMORY)
    assert line(answer, "p")["entitlement"] == 0.5
    assert f"n: GPU-00000000: how much memory it has is not known: {FRACTIONS}" in answer["assumptions"]


def test_where_nobody_measured_pods_apart_it_is_said_too(tmp_path: Path) -> None:
    lines = exported(ENGINE, 0, 0.5, of_pod("p", 0)), exported(ENGINE, 0, 0.5, of_pod("q", 1))
    answer = bill(*charged(tmp_path, *lines), *BY_MEMORY)
    said = f"n: GPU-00000000: memory of its pods is not measured apart (FB_USED): {FRACTIONS}"
    assert said in answer["assumptions"]
