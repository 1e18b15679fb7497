"""What this node can do: one line a fact, each with what to do where it is missing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.agent.doctor import kernel, silicon
from gpuledger.agent.doctor.report import Check, Report
from gpuledger.agent.holders.choose import KUBELET_SOCKET
from gpuledger.agent.probes import LoaderKind
from gpuledger.contract.clock import Clock

__all__ = ["Check", "Report", "Subject", "examine"]

CONNECT_S: Final = 2.0  # a socket on this machine answers at once or not at all


@dataclass(frozen=True)
class Subject:
    """What to look at. ``load``: put the probes into the kernel for a moment, attached to nothing."""

    loader: LoaderKind = LoaderKind.AUTO
    libraries: Sequence[Path] = ()
    kubelet_socket: Path = KUBELET_SOCKET
    exporter: str | None = None
    load: bool = True


def examine(subject: Subject, clock: Clock) -> Report:
    """Look at everything. Raises nothing: what can not be looked at is missing."""
    steps: list[Callable[[], Iterator[Check]]] = [
        kernel.kernel,
        kernel.capabilities,
        lambda: kernel.loaders(subject.loader),
        lambda: kernel.ring(subject.loader) if subject.load else iter(()),
        kernel.mappings,
        lambda: kernel.probes(subject.libraries),
        kernel.cgroups,
        silicon.nvml,
        lambda: _kubelet(subject.kubelet_socket),
        lambda: silicon.exporter(subject.exporter, clock),
    ]
    report = Report()
    for step in steps:
        try:
            report.checks.extend(step())
        except Exception as error:  # a doctor that falls ill helps nobody
            report.checks.append(Check("doctor", False, f"{type(error).__name__}: {error}"))
    return report


def _kubelet(path: Path) -> Iterator[Check]:
    remedy = "under Kubernetes mount it into the agent; elsewhere name the holders in a file"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONNECT_S)
            connection.connect(str(path))
    except OSError as error:
        yield Check("kubelet", False, f"{path}: {error.strerror or error}", remedy, required=False)
        return
    yield Check("kubelet", True, f"{path} answers", required=False)
