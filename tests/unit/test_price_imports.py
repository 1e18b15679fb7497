"""Price exports of the clouds and a simple CSV as price lists: exact, with their source, and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.contract.records import PriceBookVersion
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.yaml_values import instant_ns
from tests.support.price_imports import EXAMPLES, imported

JULY = instant_ns("2025-07-01")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_aws_machines_with_gpus_are_taken_on_demand_linux_and_shared(form: str) -> None:
    """Not the Windows machine, the one without GPUs, the disk and the reserved term."""
    found = imported("--from", "aws", EXAMPLES / f"aws.{form}")
    assert [(entry.instance_type, entry.region) for entry in found] == [
        ("p5.48xlarge", "us-east-1"),
        ("g6.xlarge", "us-west-2"),
    ]
    first = found[0]
    assert (first.per, first.unit_price_nano_per_hour, first.gpus_per_node) == ("node", 41_125_000_000, 8)
    assert (first.capacity_type, first.currency) == ("on_demand", "USD")
    assert "published 2025-07-01" in first.source
    assert "effective 2025-06-01" in first.source


def test_one_region_alone_can_be_taken() -> None:
    found = imported("--from", "aws", EXAMPLES / "aws.json", "--region", "us-west-2")
    assert [entry.instance_type for entry in found] == ["g6.xlarge"]


def test_azure_prices_follow_one_another_on_their_days_and_spot_is_apart() -> None:
    """81.25 until July 2025, 78.50 from then on; not the Windows machine, the reservation and D4s."""
    found = imported("--from", "azure", EXAMPLES / "azure.json")
    on_demand = [entry for entry in found if entry.capacity_type == "on_demand"]
    assert [
        (entry.unit_price_nano_per_hour, entry.effective_from_ns, entry.effective_to_ns)
        for entry in on_demand
    ] == [(81_250_000_000, 0, JULY), (78_500_000_000, JULY, None)]
    (spot,) = (entry for entry in found if entry.capacity_type == "spot")
    assert (spot.unit_price_nano_per_hour, spot.kind, spot.gpus_per_node) == (33_333_333_000, "spot", 8)


def test_google_sells_gpus_alone_in_each_of_a_sku_s_regions() -> None:
    """8 units and 250,000,001 nanos are 8.250000001 to the nano; not the commitment and the core."""
    found = imported("--from", "gcp", EXAMPLES / "gcp.json")
    assert [(entry.region, entry.gpu_model, entry.capacity_type) for entry in found] == [
        ("us-central1", "NVIDIA H100 80GB HBM3", "on_demand"),
        ("us-central1", "Tesla T4", "spot"),
        ("us-east4", "NVIDIA H100 80GB HBM3", "on_demand"),
    ]
    assert {entry.per for entry in found} == {"gpu"}
    assert found[0].unit_price_nano_per_hour == 8_250_000_001
    assert "the GPU alone" in found[0].source


def sku(description: str, nano: int, usage: str = "OnDemand") -> dict[str, object]:
    """A SKU of one region, as the catalog has it."""
    price = {"currencyCode": "USD", "units": str(nano // 10**9), "nanos": nano % 10**9}
    return {
        "skuId": "EXAM-PLE0-0001",
        "description": description,
        "category": {"resourceGroup": "GPU", "usageType": usage},
        "serviceRegions": ["us-central1"],
        "pricingInfo": [
            {
                "pricingExpression": {"usageUnit": "h", "tieredRates": [{"unitPrice": price}]},
                "effectiveTime": "2025-07-01T08:00:00Z",
            }
        ],
    }


@pytest.mark.parametrize(
    ("description", "model", "instance_type"),
    [
        ("Nvidia Tesla T4 GPU running in Americas", "Tesla T4", ""),
        ("Nvidia Tesla A100 80GB GPU running in Americas", "NVIDIA A100-SXM4-80GB", ""),
        ("Nvidia L4 GPU running in Netherlands", "NVIDIA L4", ""),
        ("Nvidia H100 80GB GPU running in Americas", "NVIDIA H100 80GB HBM3", ""),
        ("Nvidia H100 80GB Mega GPU running in Tokyo", "NVIDIA H100 80GB HBM3", "a3-megagpu-8g"),
        ("Nvidia H100 80GB Plus GPU running in Americas", "NVIDIA H100 80GB HBM3", "a3-megagpu-8g"),
        ("H200 141GB GPU running in Netherlands", "NVIDIA H200", ""),
        ("A4 Nvidia B200 (1 gpu slice) running in Americas", "NVIDIA B200", ""),
        ("RTX 6000 96GB running in Americas", "NVIDIA RTX PRO 6000 Blackwell Server Edition", ""),
    ],
)
def test_a_gpu_is_known_by_what_the_catalog_calls_it(
    description: str, model: str, instance_type: str, tmp_path: Path
) -> None:
    """Newer ones are called neither Nvidia nor GPU; a slice of an A4 is all of one of its GPUs."""
    source = tmp_path / "gcp.json"
    attached = f"{description.partition(' running ')[0]} attached to Spot Preemptible VMs running in Americas"
    skus = [sku(description, 8_000_000_001), sku(attached, 3_000_000_000, "Preemptible")]
    source.write_text(json.dumps({"skus": skus}))
    found = {entry.capacity_type: entry for entry in imported("--from", "gcp", source)}
    assert {(entry.gpu_model, entry.instance_type) for entry in found.values()} == {(model, instance_type)}
    assert found["on_demand"].unit_price_nano_per_hour == 8_000_000_001
    assert (found["spot"].unit_price_nano_per_hour, found["spot"].kind) == (3_000_000_000, "spot")


def test_the_h100_of_an_a3_mega_has_its_own_price_beside_that_of_the_others(tmp_path: Path) -> None:
    """9.80 on A3 High, 10.34 on A3 Mega, in one region: the price of the machine type goes first."""
    source = tmp_path / "gcp.json"
    skus = [
        sku("Nvidia H100 80GB GPU running in Americas", 9_800_000_000),
        sku("Nvidia H100 80GB Plus GPU running in Americas", 10_340_000_000),
    ]
    source.write_text(json.dumps({"skus": skus}))
    book = PriceBook(PriceBookVersion(1, 0, entries=imported("--from", "gcp", source)))
    here = {"region": "us-central1", "gpu_model": "NVIDIA H100 80GB HBM3"}
    cost = {
        kind: book.cost_nano(PricedDevice(instance_type=kind, **here), JULY, JULY + HOUR_NS)
        for kind in ("a3-highgpu-8g", "a3-megagpu-8g")
    }
    assert cost == {"a3-highgpu-8g": 9_800_000_000, "a3-megagpu-8g": 10_340_000_000}


@pytest.mark.parametrize(
    "description",
    [
        "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas",
        "Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode",
        "Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Americas",
    ],
)
def test_what_is_sold_otherwise_than_on_demand_is_never_taken_for_it(
    description: str, tmp_path: Path
) -> None:
    """Though the catalog says OnDemand of its usage."""
    source = tmp_path / "gcp.json"
    skus = [sku(description, 1_000_000_000), sku("Nvidia L4 GPU running in Americas", 700_000_000)]
    source.write_text(json.dumps({"skus": skus}))
    found = [entry for entry in imported("--from", "gcp", source) if entry.gpu_model != "NVIDIA L4"]
    assert [entry.capacity_type for entry in found] == ["spot"] * description.startswith("Spot")


def test_a_slice_of_an_a4_is_priced_with_its_part_of_the_machine(tmp_path: Path) -> None:
    source = tmp_path / "gcp.json"
    source.write_text(json.dumps({"skus": [sku("A4 Nvidia B200 (1 gpu slice) running in Iowa", 16 * 10**9)]}))
    assert "the GPU with its part of the machine" in imported("--from", "gcp", source)[0].source


def test_the_simple_csv_has_a_column_for_each_field_and_each_match() -> None:
    """80.00 less 10 % is 72, from July 72.40 less 10 % is 65.16."""
    found = {entry.id: entry for entry in imported("--from", "csv", EXAMPLES / "prices.csv")}
    assert found["h100-node"].unit_price_nano_per_hour == 72_000_000_000
    assert found["h100-node-2"].unit_price_nano_per_hour == 65_160_000_000
    assert found["h100-node"].effective_to_ns == found["h100-node-2"].effective_from_ns == JULY
    assert found["any-l4"].gpu_model == "NVIDIA L4"


def test_dated_prices_hold_only_from_the_export_s_day() -> None:
    found = imported("--from", "aws", EXAMPLES / "aws.json", "--dated")
    assert {entry.effective_from_ns for entry in found} == {instant_ns("2025-06-01")}


@pytest.mark.parametrize("shape", ["list", "one after another", "two files"])
def test_pages_are_read_however_they_were_kept(shape: str, tmp_path: Path) -> None:
    page = json.loads((EXAMPLES / "gcp.json").read_text())
    pages = [{"skus": page["skus"][:1]}, {"skus": page["skus"][1:]}]
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    if shape == "list":
        one.write_text(json.dumps(pages))
        files = [one]
    elif shape == "one after another":
        one.write_text("\n".join(map(json.dumps, pages)))
        files = [one]
    else:
        one.write_text(json.dumps(pages[0]))
        two.write_text(json.dumps(pages[1]))
        files = [one, two]
    assert len(imported("--from", "gcp", *files)) == 3
