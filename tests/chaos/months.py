"""What is booked of closed months, held against what was known of each hour when its month was closed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.periods import period_of
from gpuledger.contract.records import ChargeSet, PeriodsVersion
from gpuledger.contract.windows import hour_start
from tests.chaos import rows
from tests.chaos.truth import rank

Hour = tuple[str, int]
"""A node and the beginning of the hour (Unix s)."""
Amounts = dict[tuple[str, str], tuple[int, int]]
"""By device and team: nano-units, GPU-ns; none that are 0."""
Told = Sequence[tuple[int, ChargeSet]]
NS_PER_S = 1_000_000_000
MOST_SAID = 3  # of what might be booked, in a message
MONEY, TIME = ("used", "held_idle", "unallocated", "unobserved"), "total_ns"

BOOKED = (
    "SELECT node, toUnixTimestamp(hour) AS hour_s, booking_period, device, team, "
    "toString(sum(b.total)) AS total, sum(b.total_ns) AS total_ns "
    "FROM bookings AS b GROUP BY node, hour_s, booking_period, device, team"
)
SUMS = tuple(
    "SELECT cluster, node, hour, device, consumer_kind, consumer, container, reason, team, "
    "sum(x.total) AS money, sum(x.used_ns) AS busy, sum(x.total_ns) AS ns "
    f"FROM {view} AS x GROUP BY ALL HAVING money != 0 OR ns != 0"
    for view in ("bookings", "charges_hourly")
)


@dataclass
class Booked:
    """What `bookings` says, by hour and month."""

    amounts: dict[Hour, dict[str, Amounts]] = field(default_factory=lambda: defaultdict(dict))

    def through(self, hour: Hour, month: str) -> Amounts:
        """All that is booked of an hour in the months up to that one."""
        return _sum(amounts for other, amounts in self.amounts[hour].items() if other <= month)

    def of(self, months: Iterable[str]) -> Mapping[tuple[Hour, str], Amounts]:
        """What is booked in each of these months."""
        wanted = set(months)
        return {
            (hour, month): _sum([amounts])
            for hour, by_month in self.amounts.items()
            for month, amounts in by_month.items()
            if month in wanted and _sum([amounts])
        }


def booked(port: int) -> Booked:
    """Asks the warehouse. Raises OSError."""
    found = Booked()
    for row in rows.ask(port, BOOKED):
        amounts = found.amounts[row["node"], int(row["hour_s"])].setdefault(row["booking_period"], {})
        amounts[row["device"], row["team"]] = nano_from_decimal(row["total"]), int(row["total_ns"])
    return found


def wrong(found: Booked, closed: Sequence[PeriodsVersion], told: Told) -> Iterator[str]:
    """Hours of which another amount is booked up to a closed month than was known when it was closed.

    Heads of a generation wait until their hour is whole, and each until the sink looks. So of an hour that
    changed behind the close either all that had come of a generation was shown, or none of it; and what came
    of generations since the last look was not.
    """
    by_hour: dict[Hour, list[tuple[int, ChargeSet]]] = defaultdict(list)
    for at_ns, charges in told:
        by_hour[charges.node, hour_start(charges.window_start_ns) // NS_PER_S].append((at_ns, charges))
    for version in closed:
        for hour, sets in by_hour.items():
            got = found.through(hour, version.closed_through)
            is_open = period_of(hour[1] * NS_PER_S) > version.closed_through
            known = [] if is_open else [one for at_ns, one in sets if at_ns < version.active_from_ns]
            if not any(got == wanted for wanted in _shown(known)):
                wanted = list(islice(_shown(known), MOST_SAID))
                yield f"{hour} booked through {version.closed_through}: {got}, not one of {wanted}"


def changed(before: Mapping[tuple[Hour, str], Amounts], now: Mapping[tuple[Hour, str], Amounts]) -> list[str]:
    """Bookings of closed months that are other ones than they were."""
    return [
        f"{place} was booked as {before.get(place)}, now {now.get(place)}"
        for place in sorted(before.keys() | now.keys())
        if before.get(place) != now.get(place)
    ]


def corrected(closed: Sequence[PeriodsVersion], told: Told) -> int:
    """How many sets came behind the close of their month."""
    return sum(
        any(
            at_ns >= version.active_from_ns and period_of(one.window_start_ns) <= version.closed_through
            for version in closed
        )
        for at_ns, one in told
    )


def _shown(sets: Sequence[ChargeSet]) -> Iterator[Amounts]:
    """What an hour may amount to after these sets, the likeliest first: with all generations up to one, for
    each, and of generations without the last that came."""
    generations = sorted({0, *(one.generation for one in sets)}, reverse=True)
    looked_at = [len(sets), *(at for at in range(len(sets) - 1, -1, -1) if sets[at].generation)]
    for looked in looked_at:
        seen = [one for at, one in enumerate(sets) if at < looked or not one.generation]
        for most in generations:
            yield _sum(_amounts(one) for one in _heads(seen, most))


def _heads(sets: Sequence[ChargeSet], most: int) -> Iterable[ChargeSet]:
    """The set of each window that is shown where generations up to ``most`` are."""
    first: dict[int, int] = {}  # the generation in which a window is first charged waits for no other window
    shown: dict[int, ChargeSet] = {}
    for one in sets:
        start = one.window_start_ns
        first.setdefault(start, one.generation)
        if one.generation <= max(most, first[start]) and (
            start not in shown or rank(one) >= rank(shown[start])
        ):
            shown[start] = one
    return shown.values()


def _amounts(one: ChargeSet) -> Amounts:
    found: Amounts = {}
    for at, (device, team) in enumerate(zip(one.device.tolist(), one.team.tolist(), strict=True)):
        key = one.texts[device], one.texts[team]
        nano, ns = found.get(key, (0, 0))
        priced = bool(one.priced[at])
        nano += sum(int(getattr(one, f"{name}_nano")[at]) for name in MONEY) if priced else 0
        ns += sum(int(getattr(one, f"{name}_ns")[at]) for name in MONEY)
        found[key] = nano, ns
    return found


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    found: Amounts = defaultdict(lambda: (0, 0))
    for one in amounts:
        for key, (nano, ns) in one.items():
            found[key] = found[key][0] + nano, found[key][1] + ns
    return {key: both for key, both in found.items() if any(both)}
