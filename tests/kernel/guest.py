"""Runs inside the booted kernel: loads stub modules, probes them, and says what was seen as one line of JSON.

``python -m tests.kernel.guest DIRECTORY FAMILY...``: DIRECTORY holds ``app``,
FAMILY/nvidia*.ko and bench/ (tests.bpf.workbench).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gpuledger.agent.probes import Limits, LoaderKind, ProbeSource
from gpuledger.agent.probes.driver import DriverProbes
from gpuledger.agent.probes.driver_watch import DriverWatch
from gpuledger.agent.probes.ioctls import ioctl_name
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import Bench, events_of, run

MODULES = ("nvidia", "nvidia-uvm")
BENCH = "bench"
UNLOAD_S = 240.0
PREFIX = "@@ result "
SLOW = "RM_MAP_MEMORY_DMA"


def observe(watch: DriverWatch, directory: Path, family: str) -> dict[str, Any]:
    """What the probes say of one run of the program over one family of stub modules."""
    for module in MODULES:
        subprocess.run(["busybox", "insmod", directory / family / f"{module}.ko"], check=True)
    watch.follow()
    report = watch.report()
    assert report is not None
    with subprocess.Popen(
        [directory / "app"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as app:
        assert app.stdin is not None
        assert app.stdout is not None
        said = app.stdout.readline().strip()
        registrations = [(r.uuid, r.mig) for r in watch.registrations() if r.pid == app.pid]
        app.stdin.close()
    events = watch.drain()
    mine = events[events["pid"] == app.pid]
    after, left = len(watch.registrations()), len(watch.registrations())
    rows = Counter(
        (
            Operation(int(event["operation"])).name,
            ioctl_name(int(event["operation"]), int(event["function"])),
            int(event["stream"]),
            int(event["result"]),
        )
        for event in mine
    )
    slow = [
        int(e["duration_ns"]) for e in mine if ioctl_name(int(e["operation"]), int(e["function"])) == SLOW
    ]
    mapped = mine[mine["operation"] == int(Operation.IOCTL_MMAP)]["bytes"]
    losses, xids = watch.losses(), watch.xids()
    for module in reversed(MODULES):
        unload(module)
        watch.follow()
    return {
        "error": report.error,
        "gone": watch.report() is None,
        "attached": report.attached,
        "missing": report.missing,
        "said": said,
        "status": app.returncode,
        "rows": sorted([*key, count] for key, count in rows.items()),
        "registrations": registrations,
        "registrations_after": after,
        "registrations_left": left,
        "slow_ns": slow,
        "mapped_bytes": sorted(mapped.tolist()),
        "xids": [[xid.code, xid.address, xid.time_ns] for xid in xids],
        "first_pci": min(path.name for path in Path("/sys/bus/pci/devices").iterdir()),
        "xids_left": len(watch.xids()),
        "starts": len(set(mine["start_ns"].tolist())),
        "losses": [losses.ring_full, losses.threads_full, losses.return_without_entry, losses.unreturned],
    }


class EntriesOnly(DriverProbes):
    """As if the kernel had no room for any probe on a return."""

    def _attach(self, program: str, function: str, cookie: int, at_return: bool) -> None:
        if not at_return:
            super()._attach(program, function, cookie, at_return)


def observe_unreturned(directory: Path, family: str) -> dict[str, int]:
    """What is counted of calls whose returns are all missed."""
    for module in MODULES:
        subprocess.run(["busybox", "insmod", directory / family / f"{module}.ko"], check=True)
    probes = EntriesOnly()
    probes.start()
    subprocess.run([directory / "app"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    losses, events = probes.losses(), len(probes.drain())
    probes.close()
    for module in reversed(MODULES):
        unload(module)
    return {"events": events, "unreturned": losses.unreturned, "unpaired": losses.return_without_entry}


def unload(module: str) -> None:
    """The kernel gives back a probe that was closed a little later."""
    deadline = time.monotonic() + UNLOAD_S
    while subprocess.run(["busybox", "rmmod", module], check=False).returncode:
        assert time.monotonic() < deadline, f"{module} is in use"
        time.sleep(0.1)


def observe_cuda(directory: Path) -> dict[str, Any]:
    """What the probes on the CUDA library say of the program that calls every probed function."""
    bench = Bench(directory / BENCH)
    source = ProbeSource(Limits(ring_bytes=1 << 20), loader=LoaderKind.LIBBPF)
    source.start()
    source.preattach(bench.library)
    pid, out = run([bench.program("calls")], bench.directory)
    events = events_of(source, pid)
    expected = [line.split() for line in out.splitlines()]
    columns = ("bytes", "stream", "function", "launched_threads", "ordinal", "result")
    seen = [[str(event[column]) for column in columns] for event in events]
    differing = [row for row, values in zip(expected, seen, strict=False) if row[1:] != values]
    lost = source.losses().events
    gone = gone_cgroup(source)
    source.close()
    return {
        "gone": gone,
        "calls": len(expected),
        "events": len(seen),
        "differing": differing[:5],
        "lost": lost,
    }


def gone_cgroup(source: ProbeSource) -> bool:
    """Whether the path of a cgroup is told after it was removed."""
    with tempfile.TemporaryDirectory() as mount:
        subprocess.run(["busybox", "mount", "-t", "cgroup2", "none", mount], check=True)
        directory = Path(mount, "kubepods", "pod")
        directory.mkdir(parents=True)
        cgroup_id = directory.stat().st_ino
        directory.rmdir()
        subprocess.run(["busybox", "umount", mount], check=True)
    return (cgroup_id, "/kubepods/pod") in source.gone_cgroups()


def main() -> None:
    directory = Path(sys.argv[1])
    watch = DriverWatch()
    watch.follow()
    result: dict[str, Any] = {family: observe(watch, directory, family) for family in sys.argv[2:]}
    result["unreturned"] = observe_unreturned(directory, sys.argv[2])
    result |= {"cuda": observe_cuda(directory), "kernel": os.uname().release}
    print("\n" + PREFIX + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
