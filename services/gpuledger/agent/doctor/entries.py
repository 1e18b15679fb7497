"""What is probed before anybody works: the driver's entry points, and the node's own libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuledger.agent.doctor.report import Check
from gpuledger.agent.probes.driver import KALLSYMS, DriverProbes, choose_functions, driver_functions
from gpuledger.agent.probes.driver_watch import DRIVER, MODULES
from gpuledger.agent.probes.places import NODE_ROOT, node_libraries
from gpuledger.contract.errors import GpuledgerError, in_a_line

_WITHOUT: Final = "which device a process uses is then told by NVML and its environment alone"


def driver(load: bool, modules: Path = MODULES, kallsyms: Path = KALLSYMS) -> Iterator[Check]:
    """Which functions of the NVIDIA driver can be probed. ``load``: probe them for a moment."""
    if not (modules / DRIVER).is_dir():
        remedy = f"load the NVIDIA driver's modules; {_WITHOUT}"
        yield Check("driver probes", False, "no NVIDIA driver is loaded", remedy, required=False)
        return
    with kallsyms.open() as file:
        chosen, missing = choose_functions(driver_functions(line.rstrip() for line in file))
    told = f"{', '.join(chosen.values()) or 'no function'} can be probed"
    told += f", not there: {', '.join(missing)}" if missing else ""
    remedy = f"load nvidia and nvidia-uvm of a branch from 515 on; {_WITHOUT}"
    if load and chosen:
        probes = DriverProbes()
        try:
            probes.start(kallsyms)
        except (GpuledgerError, OSError) as error:
            told, missing = in_a_line(error), ("kprobes",)
            remedy = f"use a kernel with CONFIG_KPROBES, and give CAP_PERFMON; {_WITHOUT}"
        finally:
            probes.close()
    yield Check("driver probes", bool(chosen) and not missing, told, remedy, required=False)


def libraries(root: Path = NODE_ROOT) -> Iterator[Check]:
    """Which of the node's libraries are probed before any process has them, so that no call is missed."""
    found = [file.path for file in node_libraries(root)]
    yield Check(
        "preattach",
        bool(found),
        f"probed from the start: {', '.join(found)}" if found else f"no libcuda.so.1 below {root}",
        "run with the host's process ids (hostPID) and CAP_SYS_PTRACE, or name the file with --preattach; "
        "until then a process's first moments may be missed",
        required=False,
    )
