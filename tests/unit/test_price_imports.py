"""Price exports of the clouds and a simple CSV as price lists: exact, with their source, and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.configuration.prices_cli import app
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.imports import offers as offers_module
from gpuledger.pricing.imports.offers import Offers, decimal_text
from gpuledger.pricing.yaml_documents import read_prices
from gpuledger.pricing.yaml_values import instant_ns

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "prices"
JULY = instant_ns("2025-07-01")


def imported(*arguments: str | Path) -> list[PriceEntry]:
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return read_prices(done.stdout, "p.yaml").entries


def refusal(*arguments: str | Path) -> tuple[str, str]:
    """What is said on stderr, and the error."""
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    assert isinstance(done.exception, ConfigError | Refused), done.exception
    return done.stderr, str(done.exception)


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


BAD = "per,price_per_hour,gpu_model\ngpu,1.5,NVIDIA L4\ngpu,free,NVIDIA A10\ngpu,0,NVIDIA A16\ngpu,1\n"


def test_rows_that_are_not_understood_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    source, target = tmp_path / "p.csv", tmp_path / "prices.yaml"
    source.write_text(BAD)
    said, error = refusal("--from", "csv", source, "-o", target)
    assert f"{source}:3: price_per_hour: must be an amount such as 98.32" in said
    assert f"{source}:4: its price is 0: that is a missing price, not a free machine" in said
    assert f"{source}:5: there are 2 values for 3 columns" in said
    assert "--lenient" in error
    assert not target.exists()


def test_lenient_leaves_them_out_and_says_so(tmp_path: Path) -> None:
    source, target = tmp_path / "p.csv", tmp_path / "prices.yaml"
    source.write_text(BAD)
    done = CliRunner().invoke(app, ["import", "--from", "csv", str(source), "-o", str(target), "--lenient"])
    assert done.exit_code == 0
    assert done.stderr.count("left out: ") == 3
    assert "1 prices; 3 were left out" in done.stderr
    assert [entry.gpu_model for entry in read_prices(target.read_text(), "p.yaml").entries] == ["NVIDIA L4"]


def test_a_price_list_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    target = tmp_path / "prices.yaml"
    target.write_text("by hand")
    _, error = refusal("--from", "aws", EXAMPLES / "aws.json", "-o", target)
    assert "--force" in error
    assert target.read_text() == "by hand"


@pytest.mark.parametrize(
    ("form", "text", "what"),
    [
        ("aws", '{"products": {', "this is no JSON"),
        ("aws", "a,b\n1,2\n", "line 6 names no column 'SKU'"),
        ("aws", '{"products": {}, "terms": {}}', "no price of a GPU machine"),
        ("azure", '{"skus": []}', "no list 'Items'"),
        ("gcp", '{"Items": [1]}', "no list 'skus'"),
        ("gcp", "[" * 3000, "this is no JSON"),
        ("csv", "per,price\n", "no column 'price'"),
        ("csv", "per\n", "price_per_hour is missing"),
        ("csv", "per,per,price_per_hour\n", "twice"),
        ("csv", 'per,price_per_hour\ngpu,"1', "no CSV"),
        ("csv", "per,price_per_hour\n", "no price of a GPU machine"),
        ("xls", "", "--from is one of csv, aws, azure, gcp"),
    ],
)
def test_a_file_of_another_shape_is_refused_in_one_line(
    form: str, text: str, what: str, tmp_path: Path
) -> None:
    source = tmp_path / "export"
    source.write_text(text)
    _, error = refusal("--from", form, source)
    assert what in error
    assert len(error.splitlines()) == 1


def test_what_is_not_utf8_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    source = tmp_path / "export"
    source.write_bytes(b"per,price_per_hour\ngpu,\xff\n")
    assert refusal("--from", "csv", source)[1] == f"{source}: this is not UTF-8"
    assert "no such file" in refusal("--from", "csv", tmp_path / "nothing")[1]


def test_a_machine_of_which_nobody_says_how_many_gpus_it_has_is_reported(tmp_path: Path) -> None:
    page = json.loads((EXAMPLES / "azure.json").read_text())
    page["Items"][0]["armSkuName"] = "Standard_ND999_X1000_v9"
    source = tmp_path / "azure.json"
    source.write_text(json.dumps(page))
    said, _ = refusal("--from", "azure", source)
    assert "Items[0]: nobody says how many GPUs Standard_ND999_X1000_v9 has" in said


@pytest.mark.parametrize(
    ("size", "gpus"),
    [
        ("Standard_NC24ads_A100_v4", 1),
        ("Standard_ND96isrf_H100_v5", 8),
        ("Standard_ND128isr_GB300_v6", 4),
        ("Standard_NC144lds_xl_RTXPRO6000BSE_v6", 1),
        ("Standard_NC288ds_xl_RTXPRO6000BSE_v6", 2),
    ],
)
def test_how_many_gpus_a_size_of_azure_has_is_known(size: str, gpus: int, tmp_path: Path) -> None:
    page = json.loads((EXAMPLES / "azure.json").read_text())
    source = tmp_path / "azure.json"
    source.write_text(json.dumps({"Items": [dict(page["Items"][1], armSkuName=size)]}))
    (entry,) = imported("--from", "azure", source)
    assert (entry.instance_type, entry.per, entry.gpus_per_node) == (size, "node", gpus)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"usageUnit": "mo"}, "its price is per mo, not per h"),
        ({"tieredRates": []}, "one rate"),
        (
            {"tieredRates": [{"unitPrice": {"currencyCode": "USD", "units": "1", "nanos": -5}}]},
            "no number of nanos",
        ),
        (
            {"tieredRates": [{"unitPrice": {"currencyCode": "USD", "units": "x", "nanos": 0}}]},
            "no decimal number",
        ),
        ({"tieredRates": [{"unitPrice": {"currencyCode": "US", "units": "1", "nanos": 0}}]}, "currency"),
    ],
)
def test_a_sku_without_one_hourly_price_is_reported_with_its_place(change, what, tmp_path: Path) -> None:
    page = json.loads((EXAMPLES / "gcp.json").read_text())
    page["skus"][0]["pricingInfo"][0]["pricingExpression"] |= change
    source = tmp_path / "gcp.json"
    source.write_text(json.dumps(page))
    said, _ = refusal("--from", "gcp", source)
    assert f"{source}: skus[0]: " in said
    assert what in said


def test_two_prices_of_one_machine_from_one_day_contradict_each_other(tmp_path: Path) -> None:
    page = json.loads((EXAMPLES / "azure.json").read_text())
    page["Items"].append(dict(page["Items"][1], retailPrice=99))
    source = tmp_path / "azure.json"
    source.write_text(json.dumps(page))
    said, _ = refusal("--from", "azure", source)
    assert "two prices from one day: 78.5 and 99" in said


def test_an_export_over_the_limit_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuledger.pricing.imports.formats.MAX_EXPORT_BYTES", 1000)
    assert "more than 1000 bytes" in refusal("--from", "aws", EXAMPLES / "aws.json")[1]
    assert "more than 1000 bytes" in refusal("--from", "aws", EXAMPLES / "aws.csv")[1]


def test_more_prices_than_a_document_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "MAX_OFFERS", 1)
    found = Offers()
    found.add("1", {"id": "a", "per": "gpu", "price_per_hour": "1"})
    with pytest.raises(ConfigError, match="choose one --region"):
        found.add("2", {"id": "b", "per": "gpu", "price_per_hour": "1"})


@pytest.mark.parametrize("value", [1.5, True, None, "NaN", "1e99", "x", [1]])
def test_a_number_that_lost_its_digits_or_is_none_is_no_price(value: object) -> None:
    with pytest.raises(ValueError, match=r"no decimal number|no price"):
        decimal_text(value)
