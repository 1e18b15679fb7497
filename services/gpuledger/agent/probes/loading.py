"""Chooses how the probes get into the kernel, and what speaks against it on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpuledger.agent.probes.bcc import BccLoader, bcc_problem
from gpuledger.agent.probes.libbpf import LibbpfLoader, libbpf_problem
from gpuledger.agent.probes.loader import Loader, LoaderKind
from gpuledger.agent.probes.symbols import Limits
from gpuledger.contract.errors import Unsupported

_LOADERS: Final[dict[LoaderKind, Callable[[Limits], Loader]]] = {
    LoaderKind.LIBBPF: LibbpfLoader,
    LoaderKind.BCC: BccLoader,
}
_PROBLEMS: Final[dict[LoaderKind, Callable[[], str | None]]] = {
    LoaderKind.LIBBPF: libbpf_problem,
    LoaderKind.BCC: bcc_problem,
}


def _candidates(kind: LoaderKind) -> tuple[LoaderKind, ...]:
    return (LoaderKind.LIBBPF, LoaderKind.BCC) if kind is LoaderKind.AUTO else (kind,)


def loader_problem(kind: LoaderKind) -> str | None:
    """Why no loader of this kind can be used here, None where nothing speaks against one."""
    problems = [_PROBLEMS[one]() for one in _candidates(kind)]
    if None in problems:
        return None
    return "; ".join(problem for problem in problems if problem)


def load(kind: LoaderKind, limits: Limits) -> Loader:
    """The programs in the kernel, by the first loader of ``kind`` that succeeds.

    Raises Unsupported with the reason of each that did not.
    """
    reasons: list[str] = []
    for one in _candidates(kind):
        reason = _PROBLEMS[one]()
        if reason is None:
            try:
                return _LOADERS[one](limits)
            except Unsupported as error:
                reason = str(error)
        reasons.append(f"{one}: {reason}")
    raise Unsupported("; ".join(reasons))
