"""AWS Price List, offer file of AmazonEC2: JSON or CSV, of one region or of all.

Shape: docs.aws.amazon.com, "Reading the service price list file for an AWS service". Taken are on-demand
prices of Linux on shared tenancy without added software; a machine is one of GPUs where its attribute `gpu`
says how many.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from typing import Any

import ijson

from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.imports.offers import (
    Offers,
    Open,
    day_of,
    decimal_text,
    identifier,
    mapping_of,
    text_of,
)

METADATA_LINES = 5  # of the CSV, before the names of its columns
NOT_NVIDIA = ("g4ad.", "dl1.", "dl2q.", "vt1.", "inf", "trn")  # accelerators of other makers
WANTED = {
    "operatingSystem": ("Linux",),
    "tenancy": ("Shared",),
    "preInstalledSw": ("NA", ""),
    "capacitystatus": ("Used", ""),
    "marketoption": ("OnDemand", ""),
    "licenseModel": ("No License required", ""),
}
CSV_COLUMNS = {
    "instanceType": "Instance Type",
    "regionCode": "Region Code",
    "gpu": "GPU",
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "marketoption": "MarketOption",
    "licenseModel": "License Model",
}
CSV_NEEDED = ("SKU", "TermType", "EffectiveDate", "Unit", "PricePerUnit", "Currency", *CSV_COLUMNS.values())


def read_json(open_export: Open, name: str, offers: Offers) -> None:
    """Add the prices of a JSON offer file, read twice as a stream: its products, then their terms."""
    published = _published(open_export)
    machines: dict[str, Mapping[str, Any]] = {}
    with open_export() as stream:
        for sku, product in ijson.kvitems(stream, "products"):
            attributes = mapping_of(product, "attributes") if isinstance(product, dict) else {}
            family = text_of(product, "productFamily") if isinstance(product, dict) else ""
            if family.startswith("Compute Instance") and _is_wanted(attributes):
                machines[sku] = attributes
            else:
                offers.passed_over += 1
    with open_export() as stream:
        for sku, terms in ijson.kvitems(stream, "terms.OnDemand"):
            if sku in machines:
                _add_terms(f"{name}: terms.OnDemand.{sku}", machines.pop(sku), terms, published, offers)
    for sku in machines:
        offers.refuse(f"{name}: products.{sku}", "it has no on-demand price")


def _published(open_export: Open) -> str:
    with open_export() as stream:
        for prefix, event, value in ijson.parse(stream):
            if prefix == "publicationDate" and event == "string":
                return day_of(str(value))
            if prefix in ("products", "terms"):
                break
    return ""


def _is_wanted(attributes: Mapping[str, Any]) -> bool:
    kind = text_of(attributes, "instanceType")
    if text_of(attributes, "gpu") in ("", "NA", "0") or kind.startswith(NOT_NVIDIA):
        return False
    return all(text_of(attributes, key) in values for key, values in WANTED.items())


def _add_terms(place: str, machine: Mapping[str, Any], terms: object, published: str, offers: Offers) -> None:
    hourly = [
        (text_of(term, "effectiveDate"), dimension)
        for term in (terms.values() if isinstance(terms, dict) else ())
        if isinstance(term, dict)
        for dimension in mapping_of(term, "priceDimensions").values()
        if isinstance(dimension, dict) and text_of(dimension, "unit") == "Hrs"
    ]
    if len(hourly) != 1:
        offers.refuse(place, f"it has {len(hourly)} hourly prices, there must be one")
        return
    since, dimension = hourly[0]
    amounts = mapping_of(dimension, "pricePerUnit")
    if len(amounts) != 1:
        offers.refuse(place, "its price must be in one currency")
        return
    ((currency, amount),) = amounts.items()
    _add(place, machine, str(currency), amount, since, published, offers)


def _add(
    place: str,
    machine: Mapping[str, Any],
    currency: str,
    amount: object,
    since: str,
    published: str,
    offers: Offers,
) -> None:
    kind, region = text_of(machine, "instanceType"), text_of(machine, "regionCode")
    if not kind or not region:
        offers.refuse(place, "it names no instance type or no region")
        return
    try:
        price = decimal_text(amount)
        gpus = gpus_of(text_of(machine, "gpu"))
    except ValueError as error:
        offers.refuse(place, str(error))
        return
    day = day_of(since)
    offers.add(
        place,
        {
            "id": identifier("aws", region, kind),
            "per": "node",
            "price_per_hour": price,
            "currency": currency,
            "gpus_per_node": gpus,
            "match": {"region": region, "instance_type": kind, "capacity_type": "on_demand"},
            "source": f"AWS price list AmazonEC2, published {published or 'undated'}, "
            f"on demand, Linux, effective {day or 'undated'}",
        },
        since=day,
    )


def gpus_of(text: str) -> int:
    """GPUs of a machine; a fraction of one is a device of its own to whoever runs there."""
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 3 and (fraction.isdigit() or not fraction)):
        raise ValueError(f"{text[:40]!r} is no number of GPUs")
    return max(int(whole), 1)


def read_csv(open_export: Open, name: str, offers: Offers) -> None:
    """Add the prices of a CSV offer file. Raises ConfigError where it is none."""
    with open_export() as stream, TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text)
        try:
            published, header = _header(rows, name)
            for row in rows:
                _add_row(dict(zip(header, row, strict=False)), f"{name}:{rows.line_num}", published, offers)
        except csv.Error as error:
            raise ConfigError(f"this is no CSV: {error}", f"{name}:{rows.line_num}") from None


def _header(rows: Iterator[list[str]], name: str) -> tuple[str, list[str]]:
    published = ""
    for _ in range(METADATA_LINES):
        line = next(rows, [])
        if line[:1] == ["Publication Date"] and len(line) > 1:
            published = day_of(line[1])
    header = next(rows, [])
    missing = [column for column in CSV_NEEDED if column not in header]
    if missing:
        raise ConfigError(
            f"this is no price list file of AmazonEC2: line 6 names no column {missing[0]!r}", f"{name}:6"
        )
    return published, header


def _add_row(row: Mapping[str, str], place: str, published: str, offers: Offers) -> None:
    machine = {attribute: row.get(column, "") for attribute, column in CSV_COLUMNS.items()}
    family = text_of(row, "Product Family")
    if (
        not family.startswith("Compute Instance")
        or text_of(row, "TermType") != "OnDemand"
        or not _is_wanted(machine)
    ):
        offers.passed_over += 1
        return
    if text_of(row, "Unit") != "Hrs":
        offers.refuse(place, f"its price is per {text_of(row, 'Unit') or 'nothing'}, not per hour")
        return
    currency, amount, since = text_of(row, "Currency"), row["PricePerUnit"], text_of(row, "EffectiveDate")
    _add(place, machine, currency, amount, since, published, offers)
