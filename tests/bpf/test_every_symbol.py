"""Every probed function, as the emulated driver exports it: each call of each thread, in order, none else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.symbols import SILENT, SYMBOLS
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import Pod, events_of
from tests.emulator import every
from tests.emulator.control import LIBCUDA, DeviceSpec, Emulator
from tests.emulator.every_thread import BAD_CALLS, BLOCK_BYTES, OK_CALLS

ROOT = Path(__file__).parents[2]
THREADS = 3
TABLE = {symbol.name: symbol for symbol in SYMBOLS}
GIVEN_BACK = {"ALLOCATE_DEVICE", "ALLOCATE_ASYNC", "ALLOCATE_PHYSICAL", "ALLOCATE_HOST"}
"""With their bytes; managed memory was never resident."""
RECORDED = {name for name, symbol in TABLE.items() if symbol.effect not in SILENT}


def test_every_call_of_every_function_is_seen_in_two_pods_on_several_threads(
    source: ProbeSource, pods: list[Pod]
) -> None:
    with Emulator([DeviceSpec(), DeviceSpec()]) as emulator:
        source.preattach(LIBCUDA)
        command = [sys.executable, "-m", every.__name__, str(THREADS)]
        started = [
            emulator.spawn_command(command, cgroup=place.directory, env={"PYTHONPATH": str(ROOT)})
            for place in pods
        ]
        said = [_report(process) for process in started]
        events = events_of(source, *(process.pid for process in started))
        told = {(entry.pid, entry.uuid) for entry in source.device_uuids()}
        for process in started:
            process.communicate("\n")
            assert process.returncode == 0
        uuid = emulator.uuids[0].removeprefix("GPU-")
    assert {(process.pid, uuid) for process in started} <= told
    for process, place, report in zip(started, pods, said, strict=True):
        mine = events[events["pid"] == process.pid]
        assert set(mine["cgroup_id"].tolist()) == {place.cgroup_id}
        assert set(mine["tid"].tolist()) == {int(tid) for tid in report}
        assert len(report) == THREADS
        for tid, rows in report.items():
            assert {name for name, *_ in rows} == set(TABLE)
            _compare(mine[mine["tid"] == int(tid)], rows)


def test_the_emulated_driver_exports_every_probed_function() -> None:
    with Emulator():
        assert set(TABLE) <= set(exported_functions(LIBCUDA))


def test_the_counts_are_prime() -> None:
    """A probe that fires twice, or for another function, can not come to the same number."""
    for count in (OK_CALLS, BAD_CALLS, OK_CALLS + BAD_CALLS):
        assert all(count % divisor for divisor in range(2, count))


def _report(process: subprocess.Popen[str]) -> dict[str, list[Any]]:
    """What the program says it called, when it is done and still there."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.stdin.write("\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


def _compare(events: np.ndarray, rows: list[Any]) -> None:
    """One thread's events against its calls."""
    recorded = [row for row in rows if row[0] in RECORDED]
    assert all(earlier <= later for earlier, later in pairwise(events["time_ns"].tolist()))
    operations = [Operation(code).name for code in events["operation"].tolist()]
    expected = [TABLE[name].operation.name for name, *_ in recorded]
    assert Counter(operations) == Counter(expected)
    assert operations == expected
    assert (events["result"] == 0).tolist() == [succeeded for _, succeeded, *_ in recorded]
    assert events["launched_threads"].tolist() == [threads for *_, threads in recorded]
    free = [name.startswith("FREE") for name in operations]
    sizes = [0 if is_free else size for (*_, size, _), is_free in zip(recorded, free, strict=True)]
    assert [
        0 if is_free else size for size, is_free in zip(events["bytes"].tolist(), free, strict=True)
    ] == sizes
    taken = sum(size for name, size in zip(operations, sizes, strict=True) if name in GIVEN_BACK)
    assert int(events["bytes"][free].sum()) == taken - BLOCK_BYTES
