"""Closing months: which may be closed, the versions that say so, and publishing the next one."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed, unframed
from gpuledger.configuration.plan import MARGIN_NS, MIN_AHEAD_NS
from gpuledger.configuration.publish import CLIENT_ID, PARTITION, Documents
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.periods import end_ns, following, is_period
from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.topics import PERIODS
from gpuledger.pricing.check import day

KEY = b"periods"


def plan_close(
    period: str, known: Sequence[PeriodsVersion], now_ns: int, author: str = "", comment: str = ""
) -> PeriodsVersion:
    """The version that closes a month, and all before it where it is the first to be closed.

    It holds from a minute ahead, so that every writer knows it by then. Raises ConfigError for what is no
    month; Refused for one that is not over, closed already, or not the next one.
    """
    if not is_period(period):
        raise ConfigError(f"{period!r} is no month such as 2026-11", "PERIOD")
    last = max(known, key=lambda version: version.version, default=None)
    if last is not None and period <= last.closed_through:
        by = next(version for version in known if version.closed_through >= period)
        raise Refused(
            f"{period} is closed already, since {day(by.active_from_ns)} by {by.author or 'somebody'}; what "
            "changes of it is booked as a correction in the month that is open"
        )
    if now_ns < end_ns(period):
        raise Refused(f"{period} is not over before {day(end_ns(period))}")
    if last is not None and period != following(last.closed_through):
        raise Refused(
            f"{following(last.closed_through)} is still open: months are closed in order, close it first"
        )
    return PeriodsVersion(
        version=1 + (last.version if last is not None else 0),
        active_from_ns=now_ns + MIN_AHEAD_NS + MARGIN_NS,
        closed_through=period,
        created_ns=now_ns,
        author=author,
        comment=comment,
    )


class Periods:
    """The published versions. Opens connections as it needs them and closes them."""

    def __init__(self, settings: BusSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def versions(self) -> list[PeriodsVersion]:
        """Every version; of two with one number the first holds. Raises Unavailable, BadRecord, NoTopic."""
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            return self._read(reader, registry)

    def close(self, period: str, author: str = "", comment: str = "") -> PeriodsVersion:
        """Close a month; see ``plan_close``. Raises Refused also where somebody did at the same moment."""
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            known = self._read(reader, registry)
            planned = plan_close(period, known, self._clock.unix_ns(), author, comment)
            with Producer(self._settings, CLIENT_ID) as producer:
                value = framed(registry, planned)
                producer.produce_all([Outgoing(PERIODS, KEY, value, partition=PARTITION)])
            held = {version.version: version for version in self._read(reader, registry)}
        if held[planned.version] != planned:
            other = held[planned.version].author or "somebody"
            raise Refused(f"a month was closed by {other} at the same moment; look at it, then close again")
        return planned

    def _read(self, reader: PartitionReader, registry: SchemaRegistry) -> list[PeriodsVersion]:
        Documents(self._settings, self._clock).await_leader(reader, PERIODS)
        found: dict[int, PeriodsVersion] = {}
        for record in reader.read_to_end(PERIODS, PARTITION):
            version = unframed(PeriodsVersion, record.value, registry)
            found.setdefault(version.version, version)
        return [found[number] for number in sorted(found)]
