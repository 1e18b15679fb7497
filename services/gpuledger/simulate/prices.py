"""What a simulated fleet costs: list prices that change halfway, and spot prices that never stay."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import yaml

from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.simulate.plan import MODELS, ZONES
from gpuledger.simulate.spec import FleetSpec

LIST_PRICES = {
    "p5.48xlarge": "55.04",
    "p4d.24xlarge": "21.957642",
    "a2-highgpu-8g": "29.386",
}  # a node and hour
RISE = Decimal("1.07")  # of list prices, halfway
SPOT_STEP_H = 0.4  # mean time between two spot prices; those of public clouds move a few times a day and more
_SPOT_SEED = 1_000_003  # apart from the draws of nodes


def price_document(spec: FleetSpec) -> str:
    """The price list of the fleet as a document for `gpuledger config apply`, with prices to the second.

    The GPUs of a node cost all of it. The same fleet has the same prices, to the byte.
    """
    middle = (spec.start_ns + spec.end_ns) // 2
    middle -= middle % NS_PER_S
    prices: list[dict[str, Any]] = []
    for name, price in LIST_PRICES.items():
        common = {"per": "node", "gpus_per_node": spec.gpus_per_node, "match": {"instance_type": name}}
        before = {"id": f"{name}-old", **common, "price_per_hour": price, "effective_to": _time(middle)}
        risen = str(Decimal(price) * RISE)
        after = {"id": f"{name}-new", **common, "price_per_hour": risen, "effective_from": _time(middle)}
        prices += [before, after]
    spot = [_series(spec, place, name, zone) for place, (name, zone) in enumerate(_markets())]
    document = {"kind": "prices", "currency": "USD", "prices": prices, "spot": spot}
    return yaml.safe_dump(document, sort_keys=False)


def _markets() -> list[tuple[str, str]]:
    return [(name, zone) for name, *_ in MODELS for _, zone in ZONES]


def _series(spec: FleetSpec, place: int, name: str, zone: str) -> dict[str, Any]:
    """A walk between a quarter and three quarters of the list price."""
    random = np.random.default_rng((spec.seed, _SPOT_SEED, place))
    at, share = spec.start_ns - spec.start_ns % HOUR_NS, random.uniform(0.3, 0.6)
    steps = []
    while at < spec.end_ns:
        price = (Decimal(LIST_PRICES[name]) * Decimal(round(share, 3)).quantize(Decimal("0.001"))).normalize()
        steps.append({"from": _time(at), "price_per_hour": f"{price:f}"})
        at += max(60, int(random.exponential(SPOT_STEP_H) * 3600)) * NS_PER_S
        share = float(np.clip(share * random.uniform(0.85, 1.18), 0.25, 0.75))
    return {
        "id": f"{name}-spot-{zone}",
        "per": "node",
        "gpus_per_node": spec.gpus_per_node,
        "match": {"instance_type": name, "zone": zone},
        "known_until": _time(spec.end_ns + HOUR_NS),
        "prices": steps,
    }


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
