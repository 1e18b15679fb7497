"""Google's Cloud Billing Catalog, SKUs of Compute Engine: pages of services/6F81-5844-456A/skus.

Shape: cloud.google.com/billing, "services.skus.list". Taken are GPUs by the hour, on demand and preemptible
(spot). The prices are those of the GPUs alone: cores and memory of the machine are SKUs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

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

# What the catalog calls a GPU, most particular first, and what NVML calls it on Google's machines.
MODELS = (
    ("H200 141GB", "NVIDIA H200"),
    ("H100 80GB", "NVIDIA H100 80GB HBM3"),
    ("A100 80GB", "NVIDIA A100-SXM4-80GB"),
    ("A100", "NVIDIA A100-SXM4-40GB"),
    ("B200", "NVIDIA B200"),
    ("L4", "NVIDIA L4"),
    ("T4", "Tesla T4"),
    ("V100", "Tesla V100-SXM2-16GB"),
    ("P100", "Tesla P100-PCIE-16GB"),
    ("P4", "Tesla P4"),
)
CAPACITY = {"OnDemand": "on_demand", "Preemptible": "spot"}
_NOT_BY_THE_HOUR = re.compile(r"commitment|reserv|calendar|dws|flex|sole tenancy|workstation|vws", re.I)
_GPU = re.compile(r"\bnvidia (?:tesla )?(.+?)(?: plus| mega)? gpu\b", re.I)


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
    called = _GPU.search(said)
    model = next((nvml for word, nvml in MODELS if called and word.lower() == called[1].lower()), None)
    if model is None:
        offers.refuse(place, f"{said!r} is no GPU that is known; write its price by hand")
        return
    try:
        currency, price, since = _hourly(sku)
    except ValueError as error:
        offers.refuse(place, str(error))
        return
    regions = [region for region in sku.get("serviceRegions") or () if isinstance(region, str)]
    for region in regions:
        offers.add(
            place,
            {
                "id": identifier("gcp", region, model, "spot" if capacity == "spot" else ""),
                "per": "gpu",
                "price_per_hour": price,
                "currency": currency,
                "kind": "spot" if capacity == "spot" else "list",
                "match": {"region": region, "gpu_model": model, "capacity_type": capacity},
                "source": f"Google Cloud Billing Catalog, SKU {text_of(sku, 'skuId')}, the GPU alone, "
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
