"""Google's Cloud Billing Catalog, SKUs of Compute Engine: pages of services/6F81-5844-456A/skus.

Shape: cloud.google.com/billing, "services.skus.list". Taken are GPUs by the hour, on demand and preemptible
(spot). The prices are those of the GPUs alone, but for A4: cores and memory of the machine are SKUs of their
own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from gpuledger.pricing.imports.offers import (
    Offers,
    Open,
    day_of,
    decimal_text,
    identifier,
    mapping_of,
    objects_of,
    text_of,
)


class Sold(NamedTuple):
    """A GPU as it is sold: what NVML calls it on Google's machines, the only machine type that a price of its
    own is for, and whether cores and memory of the machine are in the price."""

    model: str
    instance_type: str = ""
    with_machine: bool = False


_H100 = "NVIDIA H100 80GB HBM3"
_MEGA = Sold(_H100, "a3-megagpu-8g")
SOLD = {
    "b200": Sold("NVIDIA B200", with_machine=True),  # A4 has no SKUs of cores and memory
    "h200 141gb": Sold("NVIDIA H200"),
    "h100 80gb": Sold(_H100),
    "h100 80gb mega": _MEGA,
    "h100 mega 80gb": _MEGA,
    "h100 80gb plus": _MEGA,  # cores and memory of the A3 Mega are sold as A3Plus
    "rtx 6000 96gb": Sold("NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    "a100 80gb": Sold("NVIDIA A100-SXM4-80GB"),
    "a100": Sold("NVIDIA A100-SXM4-40GB"),
    "l4": Sold("NVIDIA L4"),
    "t4": Sold("Tesla T4"),
    "v100": Sold("Tesla V100-SXM2-16GB"),
    "p100": Sold("Tesla P100-PCIE-16GB"),
    "p4": Sold("Tesla P4"),
    "k80": Sold("Tesla K80"),
}
"""By what the catalog calls it, without the words that all have."""
CAPACITY = {"OnDemand": "on_demand", "Preemptible": "spot"}
_NOT_BY_THE_HOUR = re.compile(r"commitment|reserv|calendar|dws|flex|sole tenancy|workstation|vws", re.I)
_SPOT = re.compile(r"\bspot\b|\bpreemptible\b", re.I)
_GPU = re.compile(
    r"(?:spot preemptible )?(?:a4 )?(?:nvidia )?(?:tesla )?(.+?)(?: gpu| \(1 gpu slice\))?"
    r" (?:running in|attached to) ",
    re.I,
)


def read_json(open_export: Open, name: str, offers: Offers) -> None:
    """Add the prices of one or more pages. Raises ConfigError where there are none."""
    for place, sku in objects_of(open_export, name, "skus", offers):
        _add(place, sku, offers)


def _add(place: str, sku: Mapping[str, Any], offers: Offers) -> None:
    category = mapping_of(sku, "category")
    capacity = CAPACITY.get(text_of(category, "usageType"))
    said = text_of(sku, "description")
    if text_of(category, "resourceGroup") != "GPU" or capacity is None or _NOT_BY_THE_HOUR.search(said):
        offers.passed_over += 1
        return
    if _SPOT.search(said):
        capacity = CAPACITY["Preemptible"]
    called = _GPU.match(said)
    sold = SOLD.get(called[1].lower()) if called else None
    if sold is None:
        offers.refuse(place, f"{said!r} is no GPU that is known; write its price by hand")
        return
    try:
        currency, price, since = _hourly(sku)
    except ValueError as error:
        offers.refuse(place, str(error))
        return
    what = "the GPU with its part of the machine" if sold.with_machine else "the GPU alone"
    spot = "spot" if capacity == "spot" else ""
    regions = [region for region in sku.get("serviceRegions") or () if isinstance(region, str)]
    for region in regions:
        offers.add(
            place,
            {
                "id": identifier("gcp", region, sold.model, sold.instance_type, spot),
                "per": "gpu",
                "price_per_hour": price,
                "currency": currency,
                "kind": spot or "list",
                "match": {
                    "region": region,
                    "instance_type": sold.instance_type,
                    "gpu_model": sold.model,
                    "capacity_type": capacity,
                },
                "source": f"Google Cloud Billing Catalog, SKU {text_of(sku, 'skuId')}, {what}, "
                f"{capacity.replace('_', ' ')}, effective {since or 'undated'}",
            },
            since=since,
        )


def _hourly(sku: Mapping[str, Any]) -> tuple[str, str, str]:
    """(currency, price of an hour, day from which it holds). Raises ValueError."""
    infos = sku.get("pricingInfo")
    if not isinstance(infos, list) or not infos or not isinstance(infos[-1], dict):
        raise ValueError("it has no pricingInfo")
    expression = mapping_of(infos[-1], "pricingExpression")
    if text_of(expression, "usageUnit") != "h":
        raise ValueError(f"its price is per {text_of(expression, 'usageUnit') or 'nothing'}, not per h")
    rates = expression.get("tieredRates")
    if not isinstance(rates, list) or len(rates) != 1 or not isinstance(rates[0], dict):
        raise ValueError("it must have one rate, whatever the amount")
    money = mapping_of(rates[0], "unitPrice")
    units, nanos = money.get("units", "0"), money.get("nanos", 0)
    if not isinstance(nanos, int) or not 0 <= nanos < 1_000_000_000:
        raise ValueError(f"{nanos!r} is no number of nanos")
    price = Decimal(decimal_text(units)) + Decimal(nanos).scaleb(-9)
    return text_of(money, "currencyCode"), decimal_text(price), day_of(text_of(infos[-1], "effectiveTime"))
