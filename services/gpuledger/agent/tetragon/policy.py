"""The TracingPolicies that have Tetragon watch the functions that our own probes watch.

Fields: TracingPolicy of cilium.io/v1alpha1 (cilium/tetragon, pkg/k8s/apis/cilium.io). Tetragon refuses a
whole policy when the library lacks one of its symbols, so what came with later versions of CUDA has policies
of its own: those of versions that a driver does not have are refused, and nothing else.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any, Final

import yaml

from gpuledger.agent.tetragon.arguments import Argument, arguments_of, traced_symbols
from gpuledger.agent.tetragon.lines import POLICY_PREFIX

DEFAULT_LIBRARY: Final = "/procRoot/1/root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
"""The node's library as Tetragon's pod sees it, whose chart mounts the host's /proc at /procRoot."""

_SINCE: Final = {
    "11-8": ("cuLaunchKernelEx",),
    "12-0": (
        "cuStreamBatchMemOp_v2",
        "cuStreamWaitValue32_v2",
        "cuStreamWaitValue64_v2",
        "cuStreamWriteValue32_v2",
        "cuStreamWriteValue64_v2",
    ),
    "12-2": ("cuMemPrefetchAsync_v2",),
    "12-4": ("cuGreenCtxCreate", "cuCtxFromGreenCtx", "cuGreenCtxDestroy"),
    "12-5": (
        "cuCtxCreate_v4",
        "cuCtxRecordEvent",
        "cuCtxWaitEvent",
        "cuGreenCtxRecordEvent",
        "cuGreenCtxWaitEvent",
    ),
    "12-8": ("cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", "cuMemBatchDecompressAsync"),
    "13-0": (
        "cuMemcpyBatchAsync_v2",
        "cuMemcpy3DBatchAsync_v2",
        "cuCtxSynchronize_v2",
        "cuMemPrefetchBatchAsync",
        "cuMemDiscardBatchAsync",
        "cuMemDiscardAndPrefetchBatchAsync",
    ),
    "13-2": ("cuMemcpyWithAttributesAsync", "cuMemcpy3DWithAttributesAsync"),
    "13-5": ("cuLaunchHostFunc_v2", "cuFabricCpyBatchAsync"),
}
"""Version of CUDA (cuda.h) -> functions that came with it, after 11.4."""
_OLD: Final = ("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync", "cuLaunchCooperativeKernelMultiDevice")
"""Deprecated; a later driver may drop them."""
_TWINS: Final = ("_ptsz", "_ptds")
HEADER: Final = """\
# Made by `gpuledger agent tetragon-policy`, from the table of the agent's own probes: do not edit.
# A policy is refused whole where the library lacks a symbol, so what came with later versions of CUDA stands
# apart: apply all, and `tetra tracingpolicy list` shows which were taken. For what one library exports:
# gpuledger agent tetragon-policy --exported-by /usr/lib/x86_64-linux-gnu/libcuda.so.1
"""


def tracing_policies(library: str = DEFAULT_LIBRARY, exported: Collection[str] | None = None) -> str:
    """YAML documents, one a policy. ``library``: the path as Tetragon sees it; ``exported``: what the library
    exports, where that is known, else all that any version has."""
    groups: dict[str, dict[tuple[Argument, ...], list[str]]] = {}
    for symbol in traced_symbols():
        if exported is None or symbol.name in exported:
            hooks = groups.setdefault(_group(symbol.name) if exported is None else "", {})
            hooks.setdefault(arguments_of(symbol), []).append(symbol.name)
    text = io.StringIO()
    text.write(HEADER)
    policies = [_policy(name, hooks, library) for name, hooks in sorted(groups.items())]
    yaml.safe_dump_all(policies, text, sort_keys=False, explicit_start=True, width=110)
    return text.getvalue()


def _group(name: str) -> str:
    base = name
    for suffix in _TWINS:
        base = base.removesuffix(suffix)
    if base in _OLD:
        return "old"
    return next((version for version, names in _SINCE.items() if base in names), "")


def _policy(group: str, hooks: dict[tuple[Argument, ...], list[str]], library: str) -> dict[str, Any]:
    return {
        "apiVersion": "cilium.io/v1alpha1",
        "kind": "TracingPolicy",
        "metadata": {"name": f"{POLICY_PREFIX}-{group}" if group else POLICY_PREFIX},
        "spec": {"uprobes": [_hook(library, names, arguments) for arguments, names in hooks.items()]},
    }


def _hook(library: str, symbols: list[str], arguments: tuple[Argument, ...]) -> dict[str, Any]:
    hook: dict[str, Any] = {"path": library, "symbols": symbols}
    if arguments:
        hook["args"] = [{"index": each.place, "type": each.type, "label": each.name} for each in arguments]
    return hook
