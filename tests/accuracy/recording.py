"""Run mixes on the emulator below a real agent, and keep what it said of them and what was true.

One emulator and one agent serve all mixes, each on devices of its own, one mix after the other; with several
``lanes`` so many at a time. Processes start shortly before the first window that counts and end with the
last one. The agent's records are read from its spool: no Kafka is there to take them.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpuledger.agent.spool import Journal
from gpuledger.attribution import NodeWindow
from gpuledger.charge.recorded import Telemetry, windows_of
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode
from tests.accuracy.mixes import Mix
from tests.emulator import LIBCUDA, DeviceSpec, Emulator, make_pod_cgroup, remove_pod_cgroup
from tests.support.children import tied

NS_PER_S = 1_000_000_000
WINDOW_S = 10
LEAD_S = 2.0  # from the start of a mix's processes to its first window
TAIL_S = 0.1  # from the end of its last window to their end: a window's last calls are there
LEVEL = -5  # of the emulation: other work of the machine shall not bend it
START_S = 60.0
CUT_S = 6.0  # until the agent has put out the last window
NOBODY = "127.0.0.1:9"  # the discard port: no broker answers there
SPOOL_BYTES = 4 << 30  # more than will come, so that no pressure coarsens anything
KINDS = {kind.__name__: kind for kind in (EventBatch, SampleBatch, Holdings)}


class RecordingError(Exception):
    """The agent did not start."""


@dataclass(frozen=True)
class Truth:
    """What one process of a mix had of a device in a window, in ns of time, or of SM-time where that is
    what is shared."""

    mix: str
    device: str
    consumer: str
    window_start_ns: int
    busy_ns: float


@dataclass(frozen=True)
class Recording:
    """The agent's windows, and the truth of each process of each mix in the windows that count."""

    windows: list[NodeWindow]
    truths: list[Truth]


@dataclass
class _Run:
    """A mix with its place on the emulator, and while it runs."""

    mix: Mix
    first_device: int
    pods: list[str]
    cgroups: list[Path]
    first_window_ns: int = 0
    started: list[subprocess.Popen[str]] | None = None


def record(mixes: Sequence[Mix], windows: int, directory: Path, lanes: int = 1) -> Recording:
    """Run each mix for ``windows`` windows. ``directory``, emptied before, keeps all that ``load`` needs.

    Raises RecordingError."""
    devices, runs = _placed(mixes)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        emulator = stack.enter_context(Emulator(devices))
        os.setpriority(os.PRIO_PROCESS, emulator.daemon_pid, LEVEL)
        for run in runs:
            for pod in run.pods:
                run.cgroups.append(make_pod_cgroup(pod, uuid.uuid4().hex * 2))
                stack.callback(remove_pod_cgroup, run.cgroups[-1])
        stack.callback(_end_all, runs)
        _write_holders(directory / "holders.yaml", runs, emulator)
        with _agent(directory, emulator):
            ahead_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            _play(runs, windows, lanes, emulator)
            time.sleep(CUT_S)
            truths = _truths(runs, windows, emulator, ahead_ns)
    (directory / "truths.json").write_text(json.dumps([asdict(truth) for truth in truths]))
    return load(directory)


def load(directory: Path) -> Recording:
    """What ``record`` left in a directory."""
    truths = [Truth(**values) for values in json.loads((directory / "truths.json").read_text())]
    journal = Journal(directory / "state" / "spool", SPOOL_BYTES)
    records: list[Telemetry] = [
        decode(KINDS[entry.record], entry.body)
        for _, entry in journal.read(journal.begin, journal.end)
        if entry.record in KINDS
    ]
    journal.close()
    wanted = {truth.window_start_ns for truth in truths}
    return Recording([window for window in windows_of(records) if window.window_start_ns in wanted], truths)


def _placed(mixes: Sequence[Mix]) -> tuple[list[DeviceSpec], list[_Run]]:
    devices: list[DeviceSpec] = []
    runs = []
    for mix in mixes:
        first = len(devices)
        runs.append(_Run(mix, first, [str(uuid.uuid4()) for _ in mix.programs], []))
        for device in mix.devices:
            parent = None if device.mig_parent is None else first + device.mig_parent
            devices.append(replace(device, mig_parent=parent))
    return devices, runs


def _write_holders(path: Path, runs: Sequence[_Run], emulator: Emulator) -> None:
    """JSON, which is YAML: who holds a slot of which device."""
    pods, devices = [], []
    for run in runs:
        booked: dict[int, int] = {}
        for pod, program in zip(run.pods, run.mix.programs, strict=True):
            index = run.first_device + program.device
            slot = f"{emulator.uuids[index]}::{booked.get(index, 0)}"
            held = {"id": emulator.uuids[index] if run.mix.sharing == "exclusive" else slot}
            if program.percentage is not None:
                held["mps_percentage"] = program.percentage
            if program.booked:
                booked[index] = booked.get(index, 0) + 1
            containers = [{"name": "main", "devices": [held]}] if program.booked else []
            pods.append({"uid": pod, "namespace": "mix", "name": pod[:8], "containers": containers})
        for index, replicas in booked.items():
            sharing = {"sharing": run.mix.sharing, "replicas": replicas}
            devices.append({"device": emulator.uuids[index], **sharing})
    path.write_text(json.dumps({"pods": pods, "devices": devices}))


@contextlib.contextmanager
def _agent(directory: Path, emulator: Emulator) -> Iterator[None]:
    command = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"]
    command += ["--cluster", "accuracy", "--node", "one", "--state", str(directory / "state")]
    command += ["--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--no-lifetime"]
    command += ["--holders", str(directory / "holders.yaml"), "--window-s", str(WINDOW_S)]
    command += ["--spool-bytes", str(SPOOL_BYTES), "--preattach", str(LIBCUDA)]
    log = directory / "agent.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(tied(command), stderr=output, stdout=output, env=emulator.env) as process,
    ):
        os.setpriority(os.PRIO_PROCESS, process.pid, LEVEL)
        deadline = time.monotonic() + START_S
        while "epoch_begins" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RecordingError(f"the agent did not start: {log.read_text()}")
            time.sleep(0.1)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(START_S)
            finally:
                process.kill()


def _play(runs: Sequence[_Run], windows: int, lanes: int, emulator: Emulator) -> None:
    """All mixes, as things to do at their times."""
    first_s = (int(time.time() + LEAD_S) // WINDOW_S + 2) * WINDOW_S  # the agent's first window is not whole
    agenda: list[tuple[float, int, Callable[[], None]]] = []
    for number, run in enumerate(runs):
        begin_s = first_s + number // lanes * windows * WINDOW_S
        end_s = begin_s + windows * WINDOW_S
        run.first_window_ns = begin_s * NS_PER_S
        heapq.heappush(agenda, (begin_s - LEAD_S, len(agenda), lambda run=run: _start(run, emulator)))
        heapq.heappush(agenda, (end_s - WINDOW_S / 2, len(agenda), lambda run=run: _kill(run)))
        heapq.heappush(agenda, (end_s + TAIL_S, len(agenda), lambda run=run: _end(run)))
    while agenda:
        at_s, _, act = heapq.heappop(agenda)
        time.sleep(max(0.0, at_s - time.time()))
        act()


def _start(run: _Run, emulator: Emulator) -> None:
    run.started = []
    for program, cgroup in zip(run.mix.programs, run.cgroups, strict=True):
        percentage = (
            {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(program.percentage)} if program.percentage else {}
        )
        process = emulator.spawn(
            program.arguments.split(),
            cgroup=cgroup,
            visible_devices=emulator.uuids[run.first_device + program.device],
            env=percentage,
        )
        os.setpriority(os.PRIO_PROCESS, process.pid, LEVEL)
        run.started.append(process)


def _kill(run: _Run) -> None:
    for program, process in zip(run.mix.programs, run.started or (), strict=True):
        if program.dies:
            process.kill()


def _end(run: _Run) -> None:
    for process in run.started or ():
        process.terminate()


def _end_all(runs: Sequence[_Run]) -> None:
    for run in runs:
        for process in run.started or ():
            process.kill()
            process.wait()


def _truths(runs: Sequence[_Run], windows: int, emulator: Emulator, ahead_ns: int) -> list[Truth]:
    truth = emulator.truth()
    found = []
    for run in runs:
        for number in range(windows):
            start_ns = run.first_window_ns + number * WINDOW_S * NS_PER_S
            for place, program in enumerate(run.mix.programs):
                process = (run.started or [])[place]
                index = run.first_device + program.device
                bounds = (start_ns - ahead_ns, start_ns - ahead_ns + WINDOW_S * NS_PER_S)
                device = emulator.uuids[index]
                if run.mix.by_sm_time:
                    busy_ns = truth.sm_ns(process.pid, device, *bounds) / emulator.devices[index].sms
                else:
                    busy_ns = truth.busy_ns(process.pid, device, *bounds)
                found.append(Truth(run.mix.name, device, run.pods[place], start_ns, busy_ns))
    return found
