"""A run of the CUDA program with the agent's own parts around it, and all that they saw."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from gpuledger.agent.epoch import AgentTime, boot_id
from gpuledger.agent.nvml import NvmlSession
from gpuledger.agent.probes import LibraryReport, ProbeSource, RawEvents
from gpuledger.agent.probes.driver import GpuRegistration
from gpuledger.agent.probes.driver_api import SYMBOLS
from gpuledger.agent.probes.driver_watch import DRIVER
from gpuledger.agent.probes.events import DeviceUuid
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.samplers.nvml import NvmlSampler
from gpuledger.agent.samplers.samples import Round
from gpuledger.contract.clock import SystemClock
from tests.support.children import tied

PROGRAM = Path(__file__).parent / "program.py"
ANSWER_S = 120.0  # the longest word takes some 10 s; a first context on a large machine as long again
SAMPLE_S = 0.5


class Program:
    """The CUDA program, ready for its words. Ends with its ``with`` block."""

    def __init__(self) -> None:
        command = [sys.executable, str(PROGRAM)]
        self._process = subprocess.Popen(
            tied(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Program:
        """Wait until its library is loaded."""
        if self._line() != "ready":
            raise RuntimeError("the CUDA program did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        try:
            self._process.communicate("end\n", ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def do(self, *words: str) -> dict[str, Any]:
        """Its answer. Raises RuntimeError where it ends or hangs instead."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            raise RuntimeError(f"the CUDA program failed at {words[0]!r}")
        return dict(json.loads(line))

    def _line(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        return self._process.stdout.readline().strip() if readable else ""


@dataclass
class Observed:
    """What was called and what was seen of it."""

    pid: int
    devices: list[Any]
    counted: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, Any] = field(default_factory=dict)
    addresses: dict[str, Any] = field(default_factory=dict)
    events: RawEvents | None = None
    lost: int = 0
    library: LibraryReport | None = None
    driver: LibraryReport | None = None
    told: list[DeviceUuid] = field(default_factory=list)
    registrations: list[GpuRegistration] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    probed_ns: float = 0.0
    plain_ns: float = 0.0


def observe() -> Observed:
    """Run everything. Raises Unsupported where probes or NVML are not possible, RuntimeError where the
    program fails."""
    session = NvmlSession()
    source = ProbeSource()
    try:
        with Program() as program:
            source.start()
            source.refresh()
            seen = Observed(program.pid, list(session.devices))
            before = source.losses().events
            seen.counted = program.do("count")
            seen.events = _events_of(source, program.pid)
            seen.told = [told for told in source.device_uuids() if told.pid == program.pid]
            seen.registrations = [one for one in source.registrations() if one.pid == program.pid]
            seen.driver, seen.library = _reports(source, program.pid)
            seen.loaded, seen.rounds = _load(program, session)
            seen.addresses = program.do("addresses", *(symbol.name for symbol in SYMBOLS))
            seen.probed_ns = program.do("cost")["ns_per_call"]
            seen.lost = source.losses().events - before
            source.close()
            seen.plain_ns = program.do("cost")["ns_per_call"]
        return seen
    finally:
        source.close()
        session.close()


def _reports(source: ProbeSource, pid: int) -> tuple[LibraryReport | None, LibraryReport | None]:
    """What is probed of the kernel driver, and of the program's library."""
    reader = ProcReader()
    files = reader.libraries(pid)
    reader.close()
    reports = source.probes()
    driver = next((report for report in reports if report.path == DRIVER), None)
    return driver, next((report for report in reports if (report.device, report.inode) in files), None)


def _events_of(source: ProbeSource, pid: int) -> RawEvents:
    events = source.drain()
    mine: RawEvents = events[events["pid"] == pid]
    return np.array(mine)


def _load(program: Program, session: NvmlSession) -> tuple[dict[str, Any], list[Round]]:
    """Sample while the program keeps the device busy."""
    clock = SystemClock()
    sampler = NvmlSampler(session, clock, AgentTime.begin(clock, boot_id()))
    rounds: list[Round] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            rounds.append(sampler.sample())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        answer = program.do("load")
    finally:
        over.set()
        thread.join()
        sampler.close()
    return answer, rounds
