"""What is told of a breach, in words that every target uses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from gpuledger.contract.money import NS_PER_HOUR
from gpuledger.contract.records import Breach, BreachDriver

NS_PER_S = 1_000_000_000
MAX_DRIVERS = 10  # five workloads and five pods
MAX_TITLE_CHARACTERS = 200  # a line of a phone's lock screen holds less
FULL_PPM = 1_000_000
FEW_HOURS = Decimal("0.1")  # GPU-hours of which two decimals would say little
ID_CHARACTERS = 32  # 128 bits of SHA-256: no two deliveries ever share one


class Kind(StrEnum):
    """What became of the breach."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    RESOLVED = "resolved"
    RETRACTED = "retracted"


_SIGNS = {
    Kind.FIRING: "Firing",
    Kind.ACKNOWLEDGED: "Acknowledged",
    Kind.SILENCED: "Silenced",
    Kind.RESOLVED: "Resolved",
    Kind.RETRACTED: "Retracted",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell: ``breach`` as it stands, ``at_ns`` when it came about (ns since the Unix epoch)."""

    kind: Kind
    breach: Breach
    at_ns: int

    @property
    def id(self) -> str:
        """The same at each attempt to deliver it; printable ASCII, without spaces and dots."""
        return digest(self.breach.id, str(self.breach.change), self.kind)

    @property
    def thread(self) -> str:
        """The same for all notices of one breach."""
        return digest(self.breach.id)

    @property
    def severity(self) -> str:
        """``critical`` where money is spent that was not there, or burns fast; else ``warning``."""
        over = self.breach.rule == "threshold" and self.breach.threshold_ppm >= FULL_PPM
        fast = self.breach.rule == "burn_rate" and self.breach.speed != "slow"
        return "critical" if over or fast else "warning"

    @property
    def title(self) -> str:
        """One line."""
        return one_line(f"[{_SIGNS[self.kind]}] {summary(self.breach)}")[:MAX_TITLE_CHARACTERS]

    def lines(self) -> Iterator[str]:
        """What, how much, since when, who drives it, what is to be expected, where to look."""
        breach = self.breach
        yield summary(breach)
        yield f"Spent: {spent(breach)}"
        yield f"Since: {instant(breach.since_ns)}"
        yield f"Period: {instant(breach.period_start_ns)} to {instant(breach.period_end_ns)}"
        if breach.forecast_low_ns is not None and breach.forecast_high_ns is not None:
            yield (
                f"Used up, as it goes: between {instant(breach.forecast_low_ns)} "
                f"and {instant(breach.forecast_high_ns)}"
            )
        for driver in breach.drivers[:MAX_DRIVERS]:
            yield f"- {driver_line(driver, breach.currency)}"
        yield from self._remarks()
        if breach.link:
            yield breach.link

    def _remarks(self) -> Iterator[str]:
        if self.kind is Kind.RETRACTED:
            yield "The ledger was corrected: this line was never crossed."
        if self.kind in (Kind.ACKNOWLEDGED, Kind.SILENCED):
            yield hold_line(self.breach)


def digest(*parts: str) -> str:
    """A name made of texts; different texts never make the same one."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_CHARACTERS]


def summary(breach: Breach) -> str:
    """The sentence that came with the breach, or one made of its fields."""
    return one_line(breach.message) or one_line(f"budget {breach.budget_id}: {threshold(breach)}")


def hold_line(breach: Breach) -> str:
    """Who put it on hold, and until when: ``Acknowledged by ada, silenced by bob until ...``."""
    parts = []
    if breach.acknowledged_by:
        parts.append(_held("acknowledged", breach.acknowledged_by, breach.acknowledged_until_ns))
    if breach.silenced_until_ns is not None:
        parts.append(_held("silenced", breach.silenced_by, breach.silenced_until_ns))
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def _held(how: str, who: str, until_ns: int | None) -> str:
    by = f" by {one_line(who)}" if who else ""
    return f"{how}{by}" if until_ns is None else f"{how}{by} until {instant(until_ns)}"


def threshold(breach: Breach) -> str:
    """The rule, with its line or speed where it has one: ``threshold 80 %``, ``burn_rate fast``."""
    if breach.rule != "threshold":
        return f"{breach.rule} {breach.speed}".rstrip()
    return f"threshold {Decimal(breach.threshold_ppm) / 10_000:f} %"


def spent(breach: Breach) -> str:
    """Spent of the amount, in money where the budget is in money, else in GPU-hours."""
    if breach.amount_nano is not None or breach.spent_nano is not None:
        parts = [money(nano, breach.currency) for nano in (breach.spent_nano, breach.amount_nano)]
    else:
        parts = [gpu_hours(ns) for ns in (breach.spent_gpu_ns, breach.amount_gpu_ns)]
    return " of ".join(parts)


def money(nano: int | None, currency: str) -> str:
    """``1234.56 EUR``, rounded to two digits; ``unknown`` for None."""
    if nano is None:
        return "unknown"
    return f"{Decimal(nano).scaleb(-9):.2f} {currency}".rstrip()


def gpu_hours(ns: int | None) -> str:
    """``12.50 GPU-hours``, four decimals below a tenth; ``unknown`` for None."""
    if ns is None:
        return "unknown"
    hours = Decimal(ns) / NS_PER_HOUR
    return f"{hours:.{4 if 0 < hours < FEW_HOURS else 2}f} GPU-hours"


def driver_line(driver: BreachDriver, currency: str) -> str:
    """``pod ml/train-0: 12.00 EUR, 3.00 GPU-hours``."""
    name = one_line(f"{driver.kind} {driver.namespace}/{driver.name}")
    amounts = [money(driver.nano, currency)] if currency else []
    return f"{name}: {', '.join([*amounts, gpu_hours(driver.gpu_ns)])}"


def instant(ns: int) -> str:
    """An instant in UTC to the second, as RFC 3339."""
    return datetime.fromtimestamp(ns // NS_PER_S, UTC).isoformat().replace("+00:00", "Z")


def one_line(text: str) -> str:
    """The text without line breaks and control characters: names come from the cluster's users."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
