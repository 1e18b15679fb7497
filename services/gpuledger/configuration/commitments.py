"""One look at the commitments of a range: what was used of them, and what of it the ledger lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import NamedTuple

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed
from gpuledger.configuration import commitments_metrics as metrics
from gpuledger.configuration.ledger import minutes_of, opened, unused_of
from gpuledger.configuration.publish import CLIENT_ID, Documents
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.records import ChargeSet, PriceBookVersion
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import DAY_NS, NS_PER_S
from gpuledger.logs import EventLog
from gpuledger.pricing.commitments import Held, Minute, news, usage
from gpuledger.pricing.versions import Prices
from gpuledger.warehouse import Warehouse

log = EventLog("gpuledger.commitments")
RETRY_S = 30.0  # a service that was away; a pass is cheap beside the time until the next


class Sums(NamedTuple):
    """Money of one commitment over a range, in nano-units."""

    committed: int = 0
    used: int = 0
    unused: int = 0
    over: int = 0


class Pass(NamedTuple):
    """What one look found: ``sums`` by commitment and currency, and how many minutes were published."""

    sums: dict[tuple[str, str], Sums]
    minutes: int
    published: int


class Commitments:
    """Looks at commitments. Opens connections as it needs them and closes them."""

    def __init__(self, bus: BusSettings, warehouse_url: str, clock: Clock) -> None:
        self._bus = bus
        self._url = warehouse_url
        self._clock = clock

    def look(self, start_ns: int, end_ns: int, publish: bool = False) -> Pass:
        """Look at the minutes of [start_ns, end_ns), and with ``publish`` write to gpu.charges what the
        ledger lacks of them. Raises Unavailable, WarehouseError.

        A day at a time, so that memory is flat; what was published stays where a later day fails.
        """
        versions = Documents(self._bus, self._clock).versions(PriceBookVersion)
        books = {one.version: one for one in versions if isinstance(one, PriceBookVersion)}
        ids = sorted({e.id for book in books.values() for e in book.entries if e.commitment_quantity})
        sums: dict[tuple[str, str], Sums] = {}
        minutes = published = 0
        if not ids:
            return Pass(sums, minutes, published)
        with opened(self._url) as warehouse:
            for first_ns in range(start_ns, end_ns, DAY_NS):
                last_ns = min(first_ns + DAY_NS, end_ns)
                sets: list[ChargeSet] = []
                for book, minute, held in _looked_at(warehouse, books, ids, first_ns, last_ns):
                    minutes += 1
                    _add(sums, book, minute)
                    lacking = news(book, minute, held)
                    if lacking is not None:
                        sets.append(lacking)
                if publish and sets:
                    self._publish(sets)
                    published += len(sets)
        return Pass(sums, minutes, published)

    def _publish(self, sets: list[ChargeSet]) -> None:
        with SchemaRegistry(self._bus) as registry, Producer(self._bus, CLIENT_ID) as producer:
            producer.produce_all(Outgoing(CHARGES, NO_NODE.key, framed(registry, one)) for one in sets)


def keep_published(look: Callable[[], Pass], every_s: float, stop: Event, clock: Clock) -> None:
    """Look again every ``every_s`` seconds until ``stop`` is set. Who is away is waited for."""
    while not stop.is_set():
        try:
            found = look()
        except Unavailable as error:
            metrics.FAILED.inc()
            log.warning("commitments can not be looked at", error=str(error))
            stop.wait(min(RETRY_S, every_s))
            continue
        metrics.PUBLISHED.inc(found.published)
        metrics.DONE.set(clock.unix_ns() / NS_PER_S)
        log.info("commitments looked at", minutes=found.minutes, published=found.published)
        stop.wait(every_s)


def _looked_at(
    warehouse: Warehouse, books: dict[int, PriceBookVersion], ids: list[str], start_ns: int, end_ns: int
) -> Iterator[tuple[PriceBookVersion, Minute, Held | None]]:
    """Each minute with the price book that holds in it; none of a time without one."""
    held = unused_of(warehouse, start_ns, end_ns)  # first: what is charged later is in the next look
    minutes, charged_with = minutes_of(warehouse, start_ns, end_ns, ids)
    prices = Prices(books.values())
    for minute in minutes:
        number = charged_with.get(minute.start_ns) or prices.at(minute.start_ns).version
        if number in books:
            yield books[number], minute, held.get(minute.start_ns)


def _add(sums: dict[tuple[str, str], Sums], book: PriceBookVersion, minute: Minute) -> None:
    for one in usage(book, minute):
        amounts = (one.committed_nano, one.used_nano, one.unused_nano, one.over_nano)
        before = sums.get((one.id, book.currency), Sums())
        sums[one.id, book.currency] = Sums(*map(sum, zip(before, amounts, strict=True)))
