"""`gpuledger charge`: bills from files, with the amounts worked out by hand. One GPU costs 12.29 an hour."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout, PriceEntry, encode
from gpuledger.contract.schemas import schema
from gpuledger.pricing import Teams
from tests.support import charging as by_hand
from tests.support.bills import (
    ENGINE,
    EXAMPLES,
    HOUR_NANO,
    LISTING,
    METRICS,
    NINE,
    PODS,
    PRICES,
    SECOND,
    bill,
    line,
    nano,
    printed,
    scrape,
)


def test_a_scrape_and_a_price_are_enough() -> None:
    """resnet-train-0 alone on a GPU that was active 70 % of an hour: used 0.7 x 12.29 = 8.603, held idle
    3.687. A GPU that nobody holds and on which nothing ran: unallocated 12.29."""
    answer = bill(*METRICS, "--for", "1h", *PRICES)
    train = line(answer, "resnet-train-0")
    assert train["used_nano"] == nano(8.603)
    assert train["held_idle_nano"] == nano(3.687)
    assert train["sm_active"] == pytest.approx(0.55)
    assert line(answer, "", "GPU-5b0d")["unallocated_nano"] == HOUR_NANO
    assert answer["total"]["total_nano"] == 3 * HOUR_NANO
    assert any("pod labels of the scrape" in text for text in answer["assumptions"])


def test_a_listing_says_how_many_slots_a_shared_gpu_has() -> None:
    """Three of four slots are held, 1/4 each; the GPU was active 83 %, of which 71 points are finetune's and
    12 ranker's. Idle 17 % = 2.0893 is shared as 0.13 (ranker) : 0.25 (embedder) : 0.25 (the free slot)."""
    answer = bill(*METRICS, "--for", "1h", *PRICES, *LISTING)
    idle = 0.17 * 12.29
    assert line(answer, "finetune-0")["used_nano"] == nano(0.71 * 12.29)
    assert line(answer, "finetune-0")["held_idle_nano"] == 0
    ranker = line(answer, "ranker-7d9f8c6b5-x2x7k")
    assert (ranker["used_nano"], ranker["held_idle_nano"]) == (nano(0.12 * 12.29), nano(idle * 13 / 63))
    assert line(answer, "embedder-5c4b7d9f6-q8wzt")["held_idle_nano"] == nano(idle * 25 / 63)
    assert line(answer, "", "GPU-72ae")["unallocated_nano"] == nano(idle * 25 / 63)
    assert not any("slot" in text for text in answer["assumptions"])


def test_pods_give_a_listing_their_uid_team_and_workload() -> None:
    answer = bill(*METRICS, "--for", "1h", *PRICES, *LISTING, *PODS)
    ranker = line(answer, "ranker-7d9f8c6b5-x2x7k")
    assert ranker["consumer"] == "8d2f6c11-3a94-4f7e-a1b5-6e0d9c3b2a17"
    assert (ranker["team"], ranker["workload"]) == ("search", "Deployment/ranker")
    assert {team["team"] for team in answer["teams"]} == {"vision", "search", "(pool)"}


def test_a_replica_count_stands_in_for_what_no_listing_says() -> None:
    answer = bill(*METRICS, "--for", "1h", *PRICES, "--replicas", "8")
    assert line(answer, "finetune-0")["entitlement"] == pytest.approx(1 / 8)


def test_of_several_scrapes_each_speaks_for_the_time_since_the_one_before(tmp_path: Path) -> None:
    """20 minutes at 30 %, then 40 minutes at 90 %: 0.1 + 0.6 = 70 % of the hour; what the first scrape shows
    is of a time that is not charged."""
    files = [
        scrape(tmp_path, f"{name}.txt", (ENGINE, 0, value)) + f"@2026-03-02T{name}:00Z"
        for name, value in (("08:00", 0.5), ("08:20", 0.3), ("09:00", 0.9))
    ]
    answer = bill(*(argument for file in files for argument in ("--samples", file)), *PRICES)
    assert (answer["from"], answer["to"]) == ("2026-03-02T08:00:00Z", NINE)
    used = sum(one["used_nano"] + one["unobserved_nano"] for one in answer["lines"])
    assert used == nano(0.7 * 12.29)


def test_scrapes_of_one_time_are_refused(tmp_path: Path) -> None:
    files = [scrape(tmp_path, f"{name}.txt", (ENGINE, 0, 0.5)) for name in "ab"]
    for file in files:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    with pytest.raises(ConfigError, match="same time"):
        bill("--samples", files[0], "--samples", files[1])


def test_the_time_of_a_scrape_is_what_its_lines_or_its_name_say(tmp_path: Path) -> None:
    named = scrape(tmp_path, "dcgm-2026-03-02T07-30-00Z.txt", (ENGINE, 0, 0.5))
    assert bill("--samples", named, "--for", "30m")["from"] == "2026-03-02T07:00:00Z"
    path = Path(named)
    path.write_text(path.read_text().rstrip() + " 1772442000000\n")
    assert bill("--samples", named, "--for", "30m")["to"] == NINE


def test_a_pod_whose_device_is_unknown_holds_a_part_of_all_that_is_free(tmp_path: Path) -> None:
    """One pod asks for one GPU, the scrape shows two without labels: half of each is its own. Idle is then
    halved as well: 12.29 of the 24.58 are held idle, 12.29 are nobody's."""
    pods = tmp_path / "pods.json"
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": "ml", "uid": "u-1", "labels": {"team": "vision"}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", **limits}]},
        "status": {"phase": "Running"},
    }
    pods.write_text(json.dumps({"kind": "List", "items": [pod]}))
    file = scrape(tmp_path, "m.txt", (ENGINE, 0, 0.0), (ENGINE, 1, 0.0))
    answer = bill("--samples", f"{file}@{NINE}", "--holdings", str(pods), *PRICES)
    of_pod = [one for one in answer["lines"] if one["pod"] == "job"]
    assert sum(one["held_idle_nano"] for one in of_pod) == nano(12.29)
    assert answer["total"]["unallocated_nano"] == nano(12.29)
    assert any("device unknown" in text for text in answer["assumptions"])


def test_a_mig_instance_costs_its_slices(tmp_path: Path) -> None:
    """A 1g.10gb instance is 1 of 7 slices: an hour costs 12.29 / 7, and the scrape's label names its pod
    though the kubelet lists it by a UUID that no exporter prints."""
    labels = ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",namespace="ml",pod="embedding-0",container="server"'
    file = scrape(tmp_path, "m.txt", (ENGINE, 0, 0.25), more=labels)
    listing = tmp_path / "listing.json"
    listing.write_text(
        json.dumps(
            {
                "pod_resources": [
                    {
                        "name": "embedding-0",
                        "namespace": "ml",
                        "containers": [
                            {
                                "name": "server",
                                "devices": [
                                    {
                                        "resource_name": "nvidia.com/mig-1g.10gb",
                                        "device_ids": ["MIG-4a5b6c7d-0000-1111-2222-333344445555"],
                                    }
                                ],
                            }
                        ],
                    }
                ]
            }
        )
    )
    answer = bill("--samples", f"{file}@{NINE}", "--holdings", str(listing), *PRICES)
    server = line(answer, "embedding-0", "MIG-")
    assert server["total_nano"] == nano(12.29 / 7)
    assert server["used_nano"] == nano(0.25 * 12.29 / 7)
    assert answer["total"]["total_nano"] == HOUR_NANO


def test_without_a_scrape_all_that_is_held_is_unobserved() -> None:
    """Nobody knows what ran: the holder of a whole GPU pays it as unobserved, never as idle."""
    answer = bill(*LISTING, "--for", "1h", "--at", NINE, *PRICES, "--gpu-model", "NVIDIA H100 80GB HBM3")
    train = line(answer, "resnet-train-0")
    assert (train["unobserved_nano"], train["held_idle_nano"]) == (HOUR_NANO, 0)
    assert any("no scrape" in text for text in answer["assumptions"])


def test_without_a_price_there_is_gpu_time_and_no_money() -> None:
    answer = bill(*METRICS, "--for", "1h")
    assert answer["unpriced_ns"] == 3 * 3600 * SECOND
    assert line(answer, "resnet-train-0")["total_nano"] is None
    assert line(answer, "resnet-train-0")["used_ns"] == int(0.7 * 3600 * SECOND)
    assert "No price for 3.0000 GPU-hours" in printed(*METRICS, "--for", "1h")


def test_an_agents_records_are_charged_as_the_processor_charges_them(tmp_path: Path) -> None:
    layout = NodeLayout(devices=[by_hand.gpu()])
    state = by_hand.state(layout, [Holder("pod-a", 0)], [by_hand.pod_process(1, "pod-a")])
    calls = by_hand.Calls([by_hand.pod_process(1, "pod-a")]).busy(2.0, 7.0).batch(sequence=2)
    measured = by_hand.samples([(Field.ENGINE_ACTIVE, 0.0, 10.0, 0.5)], sequence=1)
    window = by_hand.window([state], [calls], [measured])
    price = PriceEntry("h100", "gpu", HOUR_NANO, "USD", gpu_model="NVIDIA H100 80GB HBM3")
    layout.devices[0].model = price.gpu_model
    expected = charge_window(window, by_hand.prices(price), Teams())
    paths = [container(tmp_path, record) for record in (state, calls, measured)]
    options = zip(("--holdings", "--events", "--samples"), paths, strict=True)
    answer = bill(*(argument for option in options for argument in option), *PRICES)
    row = by_hand.row_of(expected, "pod-a")
    mine = line(answer, "pod-pod-a")
    assert (mine["used_nano"], mine["held_idle_nano"]) == (row["used_nano"], row["held_idle_nano"])
    assert mine["launches"] == 1


def container(directory: Path, record: Any) -> str:
    name = type(record).__name__
    parsed = schema(name)
    plain = fastavro.schemaless_reader(io.BytesIO(encode(record)), parsed, None)
    path = directory / f"{name}.avro"
    with path.open("wb") as file:
        fastavro.writer(file, parsed, [plain])
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--samples", "absent.txt"], "absent.txt: No such file"),
        (["--samples", str(EXAMPLES / "pods.json")], "no line of a GPU"),
        (["--holdings", str(EXAMPLES / "metrics.txt")], "neither JSON nor YAML"),
        ([*METRICS, "--for", "1 hour"], "no duration such as"),
        ([*METRICS, "--at", "yesterday"], "no instant such as"),
        ([*PODS], "no GPU is known"),
        ([], "nothing to charge"),
    ],
)
def test_a_mistake_is_said_with_what_to_do(arguments: Sequence[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bill(*arguments)
    assert said in str(caught.value)


def test_a_broken_container_is_refused_with_its_record(tmp_path: Path) -> None:
    layout = NodeLayout(devices=[by_hand.gpu()])
    path = Path(container(tmp_path, by_hand.state(layout)))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="record 0 can not be read"):
        bill("--holdings", str(path))


def test_a_window_longer_than_a_minute_is_refused_by_the_core() -> None:
    with pytest.raises(BadRecord, match="limit is a minute"):
        charge_window(by_hand.window(length=61 * SECOND), by_hand.prices(), Teams())
