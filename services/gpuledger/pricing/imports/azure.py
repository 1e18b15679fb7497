"""Azure Retail Prices API: its answers as they are, one page or several, in one file or several.

Shape: learn.microsoft.com, "Azure Retail Prices". Taken are hourly consumption prices of Linux machines of
the N series, on demand and spot. The export does not say how many GPUs a machine has, so a table does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuledger.pricing.imports.offers import (
    Offers,
    Open,
    day_of,
    decimal_text,
    identifier,
    objects_of,
    text_of,
)

# Microsoft's pages of sizes, "GPU accelerated"; a fraction of a GPU is one device to whoever runs there.
GPUS = {
    "Standard_NC6s_v3": 1,
    "Standard_NC12s_v3": 2,
    "Standard_NC24s_v3": 4,
    "Standard_NC24rs_v3": 4,
    "Standard_NC4as_T4_v3": 1,
    "Standard_NC8as_T4_v3": 1,
    "Standard_NC16as_T4_v3": 1,
    "Standard_NC64as_T4_v3": 4,
    "Standard_NC24ads_A100_v4": 1,
    "Standard_NC48ads_A100_v4": 2,
    "Standard_NC96ads_A100_v4": 4,
    "Standard_NC40ads_H100_v5": 1,
    "Standard_NC80adis_H100_v5": 2,
    "Standard_NCC40ads_H100_v5": 1,
    "Standard_ND40rs_v2": 8,
    "Standard_ND96asr_v4": 8,
    "Standard_ND96amsr_A100_v4": 8,
    "Standard_ND96is_H100_v5": 8,
    "Standard_ND96isr_H100_v5": 8,
    "Standard_ND96is_H200_v5": 8,
    "Standard_ND96isr_H200_v5": 8,
    "Standard_ND96isrf_H100_v5": 8,
    "Standard_ND128isr_NDR_GB200_v6": 4,
    "Standard_ND128isr_GB300_v6": 4,
    "Standard_NC144ds_xl_RTXPRO6000BSE_v6": 1,
    "Standard_NC144lds_xl_RTXPRO6000BSE_v6": 1,
    "Standard_NC288ds_xl_RTXPRO6000BSE_v6": 2,
    "Standard_NC288lds_xl_RTXPRO6000BSE_v6": 2,
    "Standard_NV6ads_A10_v5": 1,
    "Standard_NV12ads_A10_v5": 1,
    "Standard_NV18ads_A10_v5": 1,
    "Standard_NV36ads_A10_v5": 1,
    "Standard_NV36adms_A10_v5": 1,
    "Standard_NV72ads_A10_v5": 2,
    "Standard_NV12s_v3": 1,
    "Standard_NV24s_v3": 2,
    "Standard_NV48s_v3": 4,
}
_GPU_SERIES = re.compile(r"Standard_N[CDGV]\d")
_NO_NVIDIA = re.compile(r"MI\d+X|V620|_V710_|Standard_N[VG]\d+as_v4|Standard_NP")  # AMD's, and FPGAs


def read_json(open_export: Open, name: str, offers: Offers) -> None:
    """Add the prices of one or more pages. Raises ConfigError where there are none."""
    for place, item in objects_of(open_export, name, "Items", offers):
        _add(place, item, offers)


def _add(place: str, item: Mapping[str, Any], offers: Offers) -> None:
    kind, region = text_of(item, "armSkuName"), text_of(item, "armRegionName")
    sku = text_of(item, "skuName")
    if not _is_wanted(item, kind, sku):
        offers.passed_over += 1
        return
    if offers.region and region != offers.region:
        offers.passed_over += 1
        return
    gpus = GPUS.get(kind)
    if gpus is None:
        offers.refuse(place, f"nobody says how many GPUs {kind} has; write its price by hand")
        return
    if text_of(item, "unitOfMeasure") != "1 Hour":
        offers.refuse(
            place, f"its price is for {text_of(item, 'unitOfMeasure') or 'nothing'}, not for 1 Hour"
        )
        return
    try:
        price = decimal_text(item.get("retailPrice"))
    except ValueError as error:
        offers.refuse(place, f"retailPrice: {error}")
        return
    spot = sku.endswith(" Spot")
    since, until = day_of(text_of(item, "effectiveStartDate")), day_of(text_of(item, "effectiveEndDate"))
    offers.add(
        place,
        {
            "id": identifier("azure", region, kind, "spot" if spot else ""),
            "per": "node",
            "price_per_hour": price,
            "currency": text_of(item, "currencyCode"),
            "gpus_per_node": gpus,
            "kind": "spot" if spot else "list",
            "match": {
                "region": region,
                "instance_type": kind,
                "capacity_type": "spot" if spot else "on_demand",
            },
            "source": f"Azure Retail Prices, {'spot' if spot else 'on demand'}, Linux, "
            f"effective {since or 'undated'}, meter {text_of(item, 'meterId') or 'unnamed'}",
        },
        since=since,
        until=until,
    )


def _is_wanted(item: Mapping[str, Any], kind: str, sku: str) -> bool:
    return (
        bool(_GPU_SERIES.match(kind))
        and not _NO_NVIDIA.search(kind)
        and text_of(item, "type") == "Consumption"
        and text_of(item, "serviceName") == "Virtual Machines"
        and "Windows" not in text_of(item, "productName")
        and not sku.endswith("Low Priority")
        and item.get("isPrimaryMeterRegion", True) is not False
    )
