"""What this node can do: one line a fact, each with what to do where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuledger.agent.doctor import cluster, entries, kernel, silicon
from gpuledger.agent.doctor.report import Check, Report
from gpuledger.agent.holders.choose import KUBELET_SOCKET
from gpuledger.agent.probes import LoaderKind
from gpuledger.contract.clock import Clock
from gpuledger.kube import KubeAccess

__all__ = ["Check", "Report", "Subject", "examine"]


@dataclass(frozen=True)
class Subject:
    """What to look at. ``load``: put the probes into the kernel for a moment, attached to nothing."""

    loader: LoaderKind = LoaderKind.AUTO
    libraries: Sequence[Path] = ()
    kubelet_socket: Path = KUBELET_SOCKET
    exporter: str | None = None
    load: bool = True
    api: KubeAccess | None = None
    """The API server, where it is not that of the pod that this runs in."""
    kubelet: KubeAccess | None = None
    """The kubelet, where its own list of pods shall name the holders."""


def examine(subject: Subject, clock: Clock) -> Report:
    """Look at everything. Raises nothing: what can not be looked at is missing."""
    steps: list[Callable[[], Iterator[Check]]] = [
        kernel.kernel,
        kernel.capabilities,
        lambda: kernel.loaders(subject.loader),
        lambda: kernel.ring(subject.loader) if subject.load else iter(()),
        kernel.mappings,
        lambda: kernel.probes(subject.libraries),
        entries.libraries,
        lambda: entries.driver(subject.load),
        kernel.cgroups,
        silicon.nvml,
        lambda: cluster.kubelet(subject.kubelet_socket),
        lambda: cluster.api_server(subject.api),
        lambda: cluster.kubelet_pods(subject.kubelet),
        lambda: silicon.exporter(subject.exporter, clock),
    ]
    report = Report()
    for step in steps:
        try:
            report.checks.extend(step())
        except Exception as error:  # a doctor that falls ill helps nobody
            report.checks.append(Check("doctor", False, f"{type(error).__name__}: {error}"))
    return report
