"""What an export offers: prices that were understood, and rows that were not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple, TypeAlias

import ijson
from pydantic import ValidationError

from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.yaml_prices import Price

MAX_EXPORT_BYTES = 2 << 30  # the largest region's file of AWS has some 400 MB
MAX_OFFERS = 20_000  # of all GPU machines of one cloud in all regions; more would not fit in one document
MAX_TEXT = 300  # characters of a text that is taken over; descriptions have some 100
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9._:/+-]+")

Open: TypeAlias = Callable[[], IO[bytes]]
"""Opens the export anew, at its beginning; whoever calls it closes what it gives."""


class BadRow(NamedTuple):
    """A row that was not understood, where it is, and why."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Offer:
    """A price as the document will have it; ``since`` is the day from which the export says it holds."""

    price: Mapping[str, Any]
    since: str = ""
    until: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.price["id"])


@dataclass(slots=True)
class Offers:
    """What was read so far. ``passed_over`` counts rows that are no GPU machine's hourly price."""

    region: str = ""
    offers: list[Offer] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    passed_over: int = 0

    def add(self, place: str, price: Mapping[str, Any], since: str = "", until: str = "") -> None:
        """Keep a price, or say what is wrong with it. Raises ConfigError where there are too many."""
        if self.region and price.get("match", {}).get("region") != self.region:
            self.passed_over += 1
            return
        problem = problem_of(price)
        if problem:
            self.bad.append(BadRow(place, problem))
            return
        if len(self.offers) >= MAX_OFFERS:
            raise ConfigError(f"there are more than {MAX_OFFERS} prices; choose one --region", place)
        self.offers.append(Offer(price, since, until))

    def refuse(self, place: str, message: str) -> None:
        """Keep what is wrong with a row."""
        self.bad.append(BadRow(place, message))


def problem_of(price: Mapping[str, Any]) -> str:
    """What is wrong with a price; empty where nothing is."""
    try:
        found = Price.model_validate(dict(price))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        return f"{name}: {first['msg'].removeprefix('Value error, ')}"
    if not found.price_per_hour:
        return "its price is 0: that is a missing price, not a free machine"
    return ""


def identifier(*parts: str) -> str:
    """An id of a document from the parts that are not empty."""
    return _NOT_IN_AN_ID.sub("-", "-".join(part for part in parts if part))[:100]


def decimal_text(value: object) -> str:
    """A number of an export as plain decimal text, exactly. Raises ValueError where it is none.

    A float is refused: it has lost the export's digits already.
    """
    if isinstance(value, bool | float) or not isinstance(value, str | int | Decimal):
        raise ValueError(f"{value!r} is no decimal number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{str(value)[:40]!r} is no decimal number") from None
    if not number.is_finite() or abs(number.adjusted()) > 30:
        raise ValueError(f"{str(value)[:40]!r} is no price")
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def text_of(row: Mapping[str, Any], name: str) -> str:
    """A text of a row, empty where it has none; cut where it is beyond all reason."""
    value = row.get(name)
    return value.strip()[:MAX_TEXT] if isinstance(value, str) else ""


def mapping_of(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping within a row, empty where it has none."""
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def day_of(instant: str) -> str:
    """The day of an instant such as 2025-07-01T00:00:00Z; empty where it is none."""
    return instant[:10] if re.fullmatch(r"\d{4}-\d\d-\d\d.*", instant) else ""


def objects_of(
    open_export: Open, name: str, key: str, offers: Offers
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, object) of each object in the lists ``key`` of a file's pages, read as a stream.

    A file is one page, several after one another, or a list of pages. Raises ConfigError where it has no
    such list.
    """
    with open_export() as stream:
        in_a_list = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    number = -1
    with open_export() as stream:
        prefix = f"item.{key}.item" if in_a_list else f"{key}.item"
        for number, item in enumerate(ijson.items(stream, prefix, multiple_values=True)):
            place = f"{name}: {key}[{number}]"
            if isinstance(item, dict):
                yield place, item
            else:
                offers.refuse(place, "it is no object")
    if number < 0:
        raise ConfigError(f"there is no list {key!r} with anything in it", name)
