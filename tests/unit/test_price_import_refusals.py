"""What an import of prices refuses, reports or leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.configuration.prices_cli import app
from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.imports import offers as offers_module
from gpuledger.pricing.imports.offers import Offers, decimal_text
from gpuledger.pricing.yaml_documents import read_prices
from tests.support.price_imports import EXAMPLES, imported, refusal

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
