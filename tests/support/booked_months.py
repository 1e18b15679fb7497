"""The definition of what is booked in which month, against which views and writers are held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpuledger.contract.periods import Booked, following, keep

PERIODS = ("2026-10", "2026-11", "2026-12", "2027-01", "2027-02")
HOURS = ("2026-10", "2026-11", "2026-12")  # own months of three hours
Amounts = dict[str, int]  # by team
Booking = dict[tuple[str, str], int]  # by month and team


def lines(kept: Sequence[Booked], present: int) -> Iterator[tuple[int, str, int]]:
    """The definition: (state, month, sign) of what an hour adds to which month."""
    ordered = sorted(kept)
    for one in ordered:
        yield one.version, one.booking_period, 1
        yield one.version, following(one.through), -1
    yield present, following(ordered[-1].through), 1


class Ledger:
    """Hours whose sums are restated, each state with a version; states are never forgotten."""

    def __init__(self, hours: Sequence[str] = HOURS, first: str = PERIODS[0]) -> None:
        """``hours`` are the months that the hours lie in; ``first`` is closed first."""
        self.hours = hours
        self.first = first
        self.states: list[dict[int, Amounts]] = [{0: {}} for _ in hours]
        self.kept: list[list[Booked]] = [[] for _ in hours]
        self.closed = ""

    def restate(self, hour: int, amounts: Amounts) -> None:
        """As a writer does: first keep what is booked, then the new state."""
        self.prepare(hour)
        self.states[hour][max(self.states[hour]) + 1] = amounts

    def prepare(self, hour: int) -> None:
        one = keep(self.kept[hour], self.hours[hour], self.closed, max(self.states[hour]))
        if one is not None:
            self.kept[hour].append(one)

    def close(self) -> None:
        self.closed = self.first if not self.closed else following(self.closed)

    def present(self, hour: int) -> Amounts:
        return self.states[hour][max(self.states[hour])]

    def booked(self, hour: int) -> Booking:
        """What is booked of an hour in which month."""
        found: Booking = defaultdict(int)
        if not self.kept[hour]:
            for team, amount in self.present(hour).items():
                found[self.hours[hour], team] += amount
        else:
            for version, period, sign in lines(self.kept[hour], max(self.states[hour])):
                for team, amount in self.states[hour][version].items():
                    found[period, team] += sign * amount
        return {key: amount for key, amount in found.items() if amount}

    def invoice(self, period: str) -> Amounts:
        found: Amounts = defaultdict(int)
        for hour in range(len(self.hours)):
            for (month, team), amount in self.booked(hour).items():
                if month == period:
                    found[team] += amount
        return {team: amount for team, amount in found.items() if amount}
