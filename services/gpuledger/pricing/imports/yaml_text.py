"""Offers as a price list in YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.imports.offers import BadRow, Offer

ORDER = (
    "per",
    "price_per_hour",
    "currency",
    "effective_from",
    "effective_to",
    "priority",
    "gpus_per_node",
    "gpu_share",
    "discount",
    "kind",
)
DEFAULTS = {"kind": "list"}


def as_yaml(offers: Sequence[Offer], heading: str, dated: bool = False) -> tuple[str, list[BadRow]]:
    """The document, and offers that contradict each other. Raises ConfigError where there is no offer.

    Offers of one id with different days follow one another; with ``dated`` the first, too, holds only from
    its day. Of equal ones there is one.
    """
    if not offers:
        raise ConfigError("there is no price of a GPU machine in it")
    currencies = sorted({str(offer.price.get("currency", "USD")) for offer in offers})
    currency = "USD" if "USD" in currencies else currencies[0]
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += ["kind: prices", f"currency: {currency}", "prices:"]
    bad: list[BadRow] = []
    for _, group in groupby(
        sorted(offers, key=lambda offer: (offer.id, offer.since)), lambda offer: offer.id
    ):
        for price in _in_time(list(group), dated, bad):
            lines += _lines(price, currency)
    return "\n".join(lines) + "\n", bad


def _in_time(group: list[Offer], dated: bool, bad: list[BadRow]) -> list[dict[str, Any]]:
    chosen: list[Offer] = []
    for offer in group:
        if chosen and chosen[-1].since == offer.since:
            if chosen[-1].price["price_per_hour"] != offer.price["price_per_hour"]:
                bad.append(
                    BadRow(
                        offer.id,
                        f"two prices from one day: {chosen[-1].price['price_per_hour']} and "
                        f"{offer.price['price_per_hour']}",
                    )
                )
            continue
        chosen.append(offer)
    prices = []
    for index, offer in enumerate(chosen):
        price = dict(offer.price)
        if offer.since and (dated or index):
            price["effective_from"] = offer.since
        if index + 1 < len(chosen):
            price["effective_to"] = chosen[index + 1].since
        elif offer.until:
            price["effective_to"] = offer.until
        if index:
            price["id"] = f"{offer.id[:88]}:{offer.since}"
        prices.append(price)
    return prices


def _lines(price: Mapping[str, Any], currency: str) -> list[str]:
    lines = [f"  - id: {_scalar(price['id'])}"]
    for name in ORDER:
        if name in price and price[name] != (currency if name == "currency" else DEFAULTS.get(name)):
            lines.append(f"    {name}: {_scalar(price[name])}")
    match = {name: value for name, value in price.get("match", {}).items() if value}
    if match:
        lines.append(
            "    match: {" + ", ".join(f"{name}: {_scalar(value)}" for name, value in match.items()) + "}"
        )
    if price.get("source"):
        lines.append(f"    source: {_scalar(price['source'])}")
    return lines


def _scalar(value: object) -> str:
    """A value in YAML: plain where nobody could read it otherwise, else in quotes as JSON has them."""
    text = str(value)
    plain = text.replace("-", "").replace("_", "").replace(".", "").isalnum() and text.isascii()
    return text if plain and text[0].isalnum() else json.dumps(text, ensure_ascii=True)
