"""Every kind of price as entries of the price book: who wrote a price how decides nothing later on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.records import PriceEntry
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing.currencies import half_even
from gpuledger.pricing.yaml_lines import Path
from gpuledger.pricing.yaml_prices import (
    Commitment,
    OwnedHardware,
    Price,
    Priced,
    PricesDocument,
    SpotSeries,
)

HOURS_PER_YEAR = 8760  # 365 days: what accountants depreciate over
WATTS_PER_KILOWATT = 1000
PROVISIONAL = ":provisional"
WRITTEN_OFF = ":written-off"


class Placed(NamedTuple):
    """An entry, and where in the document it is from."""

    entry: PriceEntry
    path: Path


def entries_of(document: PricesDocument) -> list[Placed]:
    """The entries of a document, in its order."""
    currency = document.currency
    return [
        *(Placed(_listed(price, currency), ("prices", index)) for index, price in enumerate(document.prices)),
        *chain.from_iterable(
            _spot(series, currency, ("spot", index)) for index, series in enumerate(document.spot)
        ),
        *chain.from_iterable(
            _owned(hardware, currency, ("owned", index)) for index, hardware in enumerate(document.owned)
        ),
        *(
            Placed(_committed(rate, currency), ("commitments", index))
            for index, rate in enumerate(document.commitments)
        ),
    ]


def _entry(priced: Priced, currency: str, unit_price_nano_per_hour: int, **more: Any) -> PriceEntry:
    fields = {
        "id": priced.id,
        "per": priced.per,
        "currency": priced.currency or currency,
        "priority": priced.priority,
        "gpus_per_node": priced.gpus_per_node,
        "gpu_share_ppb": priced.gpu_share,
        "source": priced.source,
        **priced.match.model_dump(),
    }
    return PriceEntry(unit_price_nano_per_hour=unit_price_nano_per_hour, **(fields | more))


def _listed(price: Price, currency: str) -> PriceEntry:
    """The unit price has the discount inside, half even to the nano an hour."""
    return _entry(
        price,
        currency,
        half_even(Fraction(price.price_per_hour * (NANO_PER_UNIT - price.discount), NANO_PER_UNIT)),
        effective_from_ns=price.effective_from,
        effective_to_ns=price.effective_to,
        discount_ppb=price.discount,
        commitment=price.commitment,
        list_price_nano_per_hour=price.price_per_hour,
        kind=price.kind,
        details=dict(price.details),
    )


def _spot(series: SpotSeries, currency: str, path: Path) -> Iterator[Placed]:
    """An entry for each interval, all of the series' id, and one for what is not known yet."""
    ends = [price.since for price in series.prices[1:]]
    last = series.known_until if series.effective_to is None else min(series.known_until, series.effective_to)
    for index, (price, end) in enumerate(zip(series.prices, [*ends, last], strict=True)):
        entry = _entry(
            series,
            currency,
            price.price_per_hour,
            effective_from_ns=price.since,
            effective_to_ns=end,
            kind="spot",
        )
        yield Placed(entry, (*path, "prices", index))
    if series.effective_to is None or series.effective_to > last:
        entry = _entry(
            series,
            currency,
            series.prices[-1].price_per_hour,
            id=series.id + PROVISIONAL,
            effective_from_ns=last,
            effective_to_ns=series.effective_to,
            kind="spot",
            provisional=True,
        )
        yield Placed(entry, (*path, "known_until"))


def _owned(hardware: OwnedHardware, currency: str, path: Path) -> Iterator[Placed]:
    """(depreciation + watts x power price) x (1 + overhead), half even to the nano an hour; once the lifetime
    is over, the same without depreciation: it was charged in full."""
    lifetime_hours = hardware.lifetime_years * HOURS_PER_YEAR
    depreciation = Fraction(hardware.purchase_price - hardware.residual_value, lifetime_hours)
    power = Fraction(hardware.watts * hardware.power_price_per_kwh, WATTS_PER_KILOWATT)
    overhead = 1 + Fraction(hardware.overhead, NANO_PER_UNIT)
    start = max(hardware.effective_from, hardware.in_service)
    written_off = hardware.in_service + lifetime_hours * HOUR_NS
    end = hardware.effective_to
    details = {
        "purchase_price": format_nano(hardware.purchase_price),
        "residual_value": format_nano(hardware.residual_value),
        "lifetime_hours": str(lifetime_hours),
        "watts": str(hardware.watts),
        "power_price_per_kwh": format_nano(hardware.power_price_per_kwh),
        "overhead": format_nano(hardware.overhead),
    }
    for suffix, an_hour, low, high in (
        ("", depreciation, start, written_off if end is None else min(written_off, end)),
        (WRITTEN_OFF, Fraction(0), max(start, written_off), end),
    ):
        if high is None or low < high:
            entry = _entry(
                hardware,
                currency,
                half_even((an_hour + power) * overhead),
                id=hardware.id + suffix,
                effective_from_ns=low,
                effective_to_ns=high,
                kind="owned",
                details=details,
            )
            yield Placed(entry, path)


def _committed(rate: Commitment, currency: str) -> PriceEntry:
    return _entry(
        rate,
        currency,
        rate.price_per_hour,
        effective_from_ns=rate.effective_from,
        effective_to_ns=rate.effective_to,
        kind="commitment",
        commitment=rate.id,
        commitment_quantity=rate.quantity,
    )
