"""What people do while a chaos run breaks things: a price of the past, a mended record, a closed month.

Each command is killed at a random moment while it publishes, and called again; the next call finishes.
"""

from __future__ import annotations

import contextlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed
from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.periods import following, period_of
from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.topics import PERIODS
from gpuledger.contract.windows import NS_PER_S
from tests.chaos import poison
from tests.chaos.doings import end_at_once
from tests.chaos.faults import Step
from tests.chaos.interrupted import DIES_AFTER_S
from tests.chaos.months import Amounts, Hour
from tests.chaos.prices import PriceLine
from tests.chaos.service import Service
from tests.chaos.settings import CLUSTER

LONGEST_LIFE_S = 0.4  # from the beginning of publishing to the kill: announcing takes about 0.1 s
SURVIVES = 0.3  # of the second calls are not killed
LONGEST_PAST_S = 20  # how far back a price changes
CHEAPEST_NANO, DEAREST_NANO = 1_000_000_000, 30_000_000_000  # an hour
# Who writes to the ledger knows a version 15 s after it was published; publishing takes less than 2 s here.
CLOSE_AHEAD_S, CLOSE_WITHIN_S = 17.0, 5.0
KNOWN_WITHIN_S = 15.0
NS_PER_MS = 1_000_000
COMMAND_S = 300.0  # a command that waits for what was broken has its own patience
DONE_BEFORE = "it was retried"


class Changes(ABC):
    """What is changed in a world, which runs the commands."""

    directory: Path
    bus: BusSettings

    def __init__(self) -> None:
        self.line = PriceLine()
        self.closed: list[PeriodsVersion] = []
        self.booked: dict[tuple[Hour, str], Amounts] = {}
        """What was booked of closed months when a run was last judged, and of which months."""
        self.booked_months: set[str] = set()
        self._chance = random.Random()
        self._beside = ThreadPoolExecutor(1, "beside")  # a broken connection holds up no other fault
        self._begun: list[Future[None]] = []
        self._commands: dict[str, Service] = {}
        self._bodies: dict[int, Outgoing] = {}
        self._numbers = 0

    @property
    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """What a command needs to find the servers."""

    @abstractmethod
    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """See World."""

    def beside(self, do: Callable[[], None]) -> None:
        """Have it done by a thread of its own, one after the other; `finish_changes` waits for all."""
        self._begun.append(self._beside.submit(do))

    def begin_changes(self, seed: int) -> None:
        """What comes now follows from this seed."""
        self._chance = random.Random(f"changes {seed}")

    def close_a_month(self) -> None:
        """The next month is closed from an instant that every writer knows before. Raises GpuledgerError."""
        ahead_s = CLOSE_AHEAD_S + self._chance.uniform(0, CLOSE_WITHIN_S)
        with SchemaRegistry(self.bus) as registry, Producer(self.bus, "chaos-finance") as producer:
            framed(registry, PeriodsVersion(1, 1, period_of(0)))  # the schema is registered, and
            producer.partitions(PERIODS)  # the broker known, before the instant is chosen
            now_ns = time.time_ns()
            from_ns = (now_ns + int(ahead_s * NS_PER_S)) // NS_PER_MS * NS_PER_MS
            month = following(self.closed[-1].closed_through) if self.closed else period_of(now_ns)
            version = PeriodsVersion(len(self.closed) + 1, from_ns, month, now_ns, "finance")
            producer.produce_all([Outgoing(PERIODS, b"periods", framed(registry, version), partition=0)])
        if time.time_ns() + KNOWN_WITHIN_S * NS_PER_S > from_ns:
            raise TimeoutError("it took too long to publish that a month is closed")
        self.closed.append(version)

    def reprice(self, name: str) -> None:
        """A price of the past is another one; whoever publishes that is killed."""
        now_s = time.time_ns() // NS_PER_S
        first_s = now_s - self._chance.randint(2, LONGEST_PAST_S)
        last_s = self._chance.choice([None, self._chance.randint(first_s + 1, now_s)])
        nano = self._chance.randint(CHEAPEST_NANO, DEAREST_NANO)
        self.line.change(first_s * NS_PER_S, None if last_s is None else last_s * NS_PER_S, nano)
        self._prices.write_text(self.line.document())
        self._apply(self._chance.uniform(0, LONGEST_LIFE_S))

    def apply_again(self, name: str) -> None:
        """The same document once more, and perhaps its publisher is killed once more."""
        dies_after_s = self._chance.uniform(0, LONGEST_LIFE_S)
        self._apply(None if self._chance.random() < SURVIVES else dies_after_s)

    def poison(self, name: str) -> None:
        """A record that nobody can read, in the log of some node."""
        share = self._chance.random()
        self.beside(lambda: self._poison(share))

    def _poison(self, share: float) -> None:
        with contextlib.suppress(
            GpuledgerError
        ):  # the broker is away: then it does not come, or is not known
            record = poison.whole(self.bus, self._numbers, share)
            if record is not None:
                self._bodies[self._numbers] = record
                self._numbers += 1
                poison.send_cut(self.bus, record)

    def mend(self, name: str) -> None:
        """Mended copies of those that are told of; whoever sends them is killed."""
        dies_after_s = self._chance.uniform(0, LONGEST_LIFE_S)
        self.beside(lambda: self._try_to_mend(dies_after_s))

    def _try_to_mend(self, dies_after_s: float) -> None:
        with contextlib.suppress(GpuledgerError):
            self._mend(dies_after_s)

    def call_again(self) -> None:
        """What was interrupted is called once more, in peace. All servers are well."""
        if self._prices.exists():
            self._apply(None)

    def retire(self, node: str) -> None:
        """Have people say that a node which vanished is gone: what was charged since is withdrawn."""
        self._command("retire", ["nodes", "retire", CLUSTER, node, "--yes"], None)

    def finish_changes(self) -> list[str]:
        """Mend what is refused and see all that was called done; what could not be done, in words."""
        wrong = []
        if not self.wait_until(lambda: all(one.done() for one in self._begun), COMMAND_S):
            wrong.append("what was sent beside the faults does not end")
        wrong += [repr(one.exception()) for one in self._begun if one.done() and one.exception()]
        self._begun.clear()
        if not self.wait_until(lambda: not self._bodies or self._all_told(), COMMAND_S):
            wrong.append(f"no dead letter of {poison.lying(self.bus)}")
        self._mend(None)
        wrong += self.done_changes()
        self._bodies.clear()
        return wrong

    def done_changes(self) -> list[str]:
        """Wait for every command; what could not be done, in words."""
        wrong = []
        for name, service in self._commands.items():
            if not self.wait_until(lambda s=service: not s.running, COMMAND_S):  # type: ignore[misc]
                wrong.append(f"{name} does not end")
            elif service.status and DONE_BEFORE not in service.said():
                wrong.append(f"{name}: {service.status}: {service.said()}")
        self.end_commands()
        return wrong

    def end_commands(self) -> None:
        """SIGKILL to those that run."""
        for service in self._commands.values():
            end_at_once(service)
        self._commands.clear()

    @property
    def _prices(self) -> Path:
        return self.directory / "changed-prices.yaml"

    def _apply(self, dies_after_s: float | None) -> None:
        self._command(
            "config-apply", ["config", "apply", "--yes", "--url", "", str(self._prices)], dies_after_s
        )

    def _mend(self, dies_after_s: float | None) -> None:
        places = poison.lying(self.bus)
        told = poison.told(self.bus)
        for number, record in self._bodies.items():
            place = places.get(number)
            if place is None or place not in told:
                continue
            body = self.directory / f"mended-{number}"
            body.write_bytes(record.value or b"")
            record_name = f"{place.topic}/{place.partition}/{place.offset}"
            arguments = ["dead-letters", "retry", record_name, "--edit", str(body)]
            self._command(f"mend-{number}", arguments, dies_after_s)

    def _all_told(self) -> bool:
        try:
            return set(poison.lying(self.bus).values()) <= poison.told(self.bus)
        except GpuledgerError:
            return False

    def _command(self, name: str, arguments: list[str], dies_after_s: float | None) -> None:
        """Run it beside all else; whoever still runs is killed first."""
        if name in self._commands:
            end_at_once(self._commands[name])
        env = dict(self.environment)
        if dies_after_s is not None:
            env[DIES_AFTER_S] = f"{dies_after_s:.3f}"
        self._commands[name] = Service(name, self.directory, arguments, env, "tests.chaos.interrupted")
        self._commands[name].begin()


def steps(seed: int, seconds: float) -> list[Step]:
    """When each comes, beside the faults: once in every run."""
    chance = random.Random(f"times of changes {seed}")
    found = []
    for begin, end, target in (("reprice", "apply_again", "config"), ("poison", "mend", "letters")):
        at = chance.uniform(0.1, 0.7) * seconds
        found += [Step(at, begin, target), Step(at + chance.uniform(0.2, 0.5) * seconds, end, target)]
    return found
