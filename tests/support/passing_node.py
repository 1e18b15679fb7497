"""A node on which processes come and go, a pod for each: hours of it pass as fast as the agent's loop goes.

It lies behind the interfaces of the real sources, over a clock that is moved by hand. Each process is told of
its device, registers with the driver, allocates without a free, launches and waits, and ends in the midst of
it; its pid comes again, its pod does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.operations import Operation
from tests.support.agent import MS, S

GPUS = 8
FIRST_PID, PIDS = 1000, 300  # so few that pids come again while the agent still knows who had them before
FIRST_CGROUP = 100_000
KNOWN_BYTES, FUNCTIONS, SIZES = 1 << 20, 50, 64
NAMED_LATE_NS = 12 * S  # a window later


@dataclass(frozen=True)
class Passing:
    """How many processes live at a time, for how long each, and how many calls a second each makes."""

    living: int = 8
    life_ns: int = 1500 * MS
    calls_per_s: int = 200
    mixed: bool = False
    """Some launch one function alone, some are tallied by the kernel, some are named only when they are gone;
    a device is silent, and what is sent is confirmed late."""

    @property
    def every_ns(self) -> int:
        """A process begins so often."""
        return self.life_ns // self.living


class PassingNode:
    """The node: its processes by number, which begin one after the other. All times are of the boot clock."""

    def __init__(self, clock: ManualClock, passing: Passing, named: bool = True) -> None:
        """``named``: the cluster tells the pods' names."""
        self.clock = clock
        self.passing = passing
        self.named = named
        self.first_ns = clock.boot_ns()
        self._random = np.random.default_rng(1)

    def numbers(self, from_ns: int, to_ns: int) -> range:
        """The processes that live at some time of [from, to]."""
        begun = (to_ns - self.first_ns) // self.passing.every_ns + 1
        gone = (from_ns - self.first_ns - self.passing.life_ns) // self.passing.every_ns + 1
        return range(max(0, gone), max(0, begun))

    @property
    def seen(self) -> int:
        """How many processes there were so far."""
        return self.living().stop

    def living(self) -> range:
        """Those that live now."""
        return self.numbers(self.clock.boot_ns(), self.clock.boot_ns())

    def start_ns(self, number: int) -> int:
        return self.first_ns + number * self.passing.every_ns

    @staticmethod
    def pid(number: int) -> int:
        return FIRST_PID + number % PIDS

    @staticmethod
    def pod(number: int) -> str:
        return f"00000000-0000-0000-0000-{number:012x}"

    def is_steady(self, number: int) -> bool:
        """Whether it launches one function of one size alone, which is learned."""
        return self.passing.mixed and number % 3 == 0

    def is_tallied(self, number: int) -> bool:
        """Whether the kernel adds its calls up."""
        return self.passing.mixed and number % 4 == 1

    def is_named(self, number: int) -> bool:
        """Whether the cluster tells its pod's name by now."""
        late = self.passing.mixed and number % 5 == 2
        return not late or self.clock.boot_ns() - self.start_ns(number) >= NAMED_LATE_NS

    def number_of_pid(self, pid: int) -> int | None:
        """The living process of that pid."""
        return next((number for number in self.living() if self.pid(number) == pid), None)

    def calls(self, number: int, from_ns: int, to_ns: int) -> RawEvents:
        """What one process calls in (from, to]: its first call is an allocation, one in 25 a wait."""
        start = self.start_ns(number)
        end = start + self.passing.life_ns
        step = S // self.passing.calls_per_s
        first = max(0, (from_ns - start) // step + 1)
        count = max(0, (min(to_ns, end) - start) // step + 1 - first)
        rows = np.zeros(count, RAW_EVENT)
        calls = np.arange(first, first + count)
        rows["time_ns"] = start + calls * step
        rows["duration_ns"] = 5_000
        rows["operation"] = np.where(calls % 25 == 24, Operation.SYNCHRONIZE_STREAM, Operation.LAUNCH_KERNEL)
        rows["function"] = 1 + self._random.integers(FUNCTIONS, size=count)
        rows["launched_threads"] = 256 * (1 + self._random.integers(SIZES, size=count))
        if self.is_steady(number):
            rows["function"], rows["launched_threads"] = 1, 256
        if self.is_tallied(number):
            rows["span_ns"] = step
        waits = rows["operation"] == Operation.SYNCHRONIZE_STREAM
        rows["function"][waits] = rows["launched_threads"][waits] = 0
        rows["duration_ns"][waits] = step * 9
        begins = calls == 0
        rows["operation"][begins] = Operation.ALLOCATE_DEVICE
        rows["bytes"][begins] = KNOWN_BYTES
        rows["count"], rows["start_ns"], rows["cgroup_id"] = 1, start, FIRST_CGROUP + number
        rows["pid"] = rows["tid"] = self.pid(number)
        return rows
