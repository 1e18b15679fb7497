"""Whether this machine and this process can have probes at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gpuledger.agent.privileges import missing
from gpuledger.agent.probes.loader import LoaderKind, kernel_version
from gpuledger.agent.probes.loading import loader_problem

MINIMUM_KERNEL: Final = (5, 15)  # cookies of perf links; ring buffers are older
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h


def available(kind: LoaderKind = LoaderKind.AUTO) -> str | None:
    """Why eBPF is not possible here, None where nothing speaks against it.

    Cheap: loads nothing, so a kernel may still refuse the programs at `ProbeSource.start`.
    """
    lacking = {one.name for one in missing()} & {"BPF", "PERFMON"}
    if lacking:
        return f"eBPF needs root, or CAP_{' and CAP_'.join(sorted(lacking))}"
    if Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE:
        return "eBPF sees the host's pids: run in the host's pid namespace (hostPID: true)"
    if kernel_version() < MINIMUM_KERNEL:
        return f"kernel {os.uname().release} is older than {'.'.join(map(str, MINIMUM_KERNEL))}"
    if not Path("/sys/bus/event_source/devices/uprobe/type").is_file():
        return "this kernel has no uprobes (CONFIG_UPROBE_EVENTS), or /sys is not mounted"
    return loader_problem(kind)
