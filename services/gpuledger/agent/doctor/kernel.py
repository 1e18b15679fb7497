"""What the kernel offers: eBPF, uprobes, cgroups, and what can be probed in the libraries that are here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.doctor.report import Check
from gpuledger.agent.privileges import NEEDED, missing
from gpuledger.agent.probes import LoaderKind, ProbeSource, available
from gpuledger.agent.probes.able import MINIMUM_KERNEL
from gpuledger.agent.probes.attach import choose
from gpuledger.agent.probes.btf import VMLINUX, kernel_offsets
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.libraries import LibraryScanner, library_file
from gpuledger.agent.probes.loader import kernel_version
from gpuledger.agent.probes.loading import loader_problem
from gpuledger.agent.probes.mappings import MappingWatch
from gpuledger.agent.probes.places import NODE_ROOT, node_libraries
from gpuledger.contract.errors import BadRecord, GpuledgerError, in_a_line

_OWN_CGROUP: Final = "/proc/self/cgroup"


def kernel() -> Iterator[Check]:
    """Its version, its type information and its uprobes."""
    release, wanted = os.uname().release, ".".join(map(str, MINIMUM_KERNEL))
    new_enough = kernel_version() >= MINIMUM_KERNEL
    yield Check("kernel", new_enough, f"Linux {release}", f"run Linux {wanted} or newer")
    readable = bool(kernel_offsets())
    yield Check(
        "btf",
        readable,
        f"{VMLINUX} {'is readable' if readable else 'is not there or can not be read'}",
        "use a kernel with CONFIG_DEBUG_INFO_BTF; without it only bcc can load the probes, and processes "
        "are told apart less well",
        required=False,
    )
    uprobes = Path("/sys/bus/event_source/devices/uprobe/type")
    yield Check(
        "uprobes",
        uprobes.is_file(),
        f"{uprobes} {'is there' if uprobes.is_file() else 'is not there'}",
        "use a kernel with CONFIG_UPROBE_EVENTS, and mount /sys",
    )


def capabilities() -> Iterator[Check]:
    """What this process may do."""
    lacking = missing()
    for one in NEEDED:
        yield Check(
            f"CAP_{one.name}",
            one not in lacking,
            f"{'can not ' if one in lacking else ''}{one.without}",
            f"run as root, or add {one.name} to securityContext.capabilities of the agent's container "
            "(AmbientCapabilities of its unit)",
            one.required,
        )


def loaders(kind: LoaderKind) -> Iterator[Check]:
    """Which of the two ways there are to get the probes into the kernel, and whether this process may."""
    for one in (LoaderKind.LIBBPF, LoaderKind.BCC):
        problem = loader_problem(one)
        detail = "can load the probes" if problem is None else "can not load the probes"
        yield Check(str(one), problem is None, detail, problem or "", required=kind is one)
    reason = available(kind)
    detail = "nothing speaks against it" if reason is None else "is not possible"
    yield Check("ebpf", reason is None, detail, reason or "")


def probes(named: Sequence[Path]) -> Iterator[Check]:
    """What can be probed in each libcuda that is here, and in those that were ``named``."""
    files = {_key(path): (str(path), str(path)) for path in named}
    for key, shown, path in _libraries():
        files.setdefault(key, (shown, path))
    if not files:
        yield Check(
            "libcuda",
            False,
            "no libcuda.so was found, and no process has one mapped",
            "install the NVIDIA driver, or name the file with --library; the agent finds it by "
            "itself as soon as a process uses it",
            required=False,
        )
    for shown, path in files.values():
        yield _library(shown, path, required=path in map(str, named))


def ring(kind: LoaderKind) -> Iterator[Check]:
    """Load the probes for a moment, attached to nothing, and drain the ring."""
    source = ProbeSource(loader=kind)
    try:
        source.start()
        source.drain()
        lost = source.losses()
    except GpuledgerError as error:
        yield Check("ring", False, "the probes could not be loaded", str(error))
        return
    finally:
        source.close()
    yield Check("ring", True, f"the probes load, and the ring can be drained ({lost.events} lost)")


def mappings() -> Iterator[Check]:
    """Whether the kernel tells at once what processes map."""
    try:
        MappingWatch().close()
    except OSError as error:
        remedy = "give CAP_PERFMON; until then a library of a process's own is found by looking each second"
        told = f"the kernel does not tell what is mapped: {in_a_line(error)}"
        yield Check("mappings", False, told, remedy, required=False)
        return
    yield Check("mappings", True, "the kernel tells of libraries as processes load them")


def _key(path: Path) -> tuple[int, int] | str:
    """What names the file, whatever its path; the path where there is none."""
    try:
        return library_file(path).key
    except OSError:
        return str(path)


def _libraries() -> Iterator[tuple[tuple[int, int], str, str]]:
    """(what names it, what people call it, by which it is opened) of each file that processes have mapped
    now, and of those at the usual places."""
    for mapping in LibraryScanner().scan():
        inside = mapping.file.path
        with contextlib.suppress(OSError):  # the process has ended since
            inside = f"{Path(mapping.file.path).readlink()} of process {mapping.pid}"
        yield mapping.file.key, inside, mapping.file.path
    for file in (*node_libraries(NODE_ROOT), *node_libraries(Path("/"))):
        yield file.key, file.path, file.path


def _library(shown: str, path: str, required: bool) -> Check:
    try:
        chosen, missing, _ = choose(exported_functions(path))
    except (OSError, BadRecord) as error:
        said = error.strerror if isinstance(error, OSError) else error
        return Check("libcuda", False, shown, f"it can not be read: {said}", required)
    detail = f"{shown}: {len(chosen)} functions can be probed, {len(missing)} are not exported"
    remedy = "this is no CUDA driver library" if not chosen else ""
    if missing and chosen:
        detail += f" ({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''})"
    return Check("libcuda", bool(chosen), detail, remedy, required)


def cgroups() -> Iterator[Check]:
    """Whether the ids that the kernel gives can be turned into the names of pods."""
    remedy = "mount the host's cgroup v2 hierarchy, and give CAP_DAC_READ_SEARCH"
    try:
        paths = CgroupPaths()
    except (GpuledgerError, OSError) as error:
        yield Check("cgroup v2", False, in_a_line(error), remedy)
        return
    try:
        own = paths.cgroup_id_of_process(os.getpid())
        path = None if own is None else paths.cgroup_path(own)
    except OSError as error:
        yield Check("cgroup v2", False, f"{paths.mount}: {in_a_line(error)}", remedy)
        return
    finally:
        paths.close()
    detail = f"mounted at {paths.mount}" + ("" if path else f", but {_OWN_CGROUP} is not found in it")
    yield Check("cgroup v2", path is not None, detail, remedy)
