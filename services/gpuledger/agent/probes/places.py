"""Where a node has its own driver library, which the container toolkit mounts into containers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from gpuledger.agent.probes.libraries import LibraryFile, library_file

NODE_ROOT: Final = Path("/proc/1/root")
"""The node's file system, as an agent with the host's process ids sees it."""

LIBRARY_PLACES: Final = (
    "usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "usr/lib64/libcuda.so.1",
    "usr/local/nvidia/lib64/libcuda.so.1",
    "home/kubernetes/bin/nvidia/lib64/libcuda.so.1",
    "run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "run/nvidia/driver/usr/lib64/libcuda.so.1",
)
"""Debian, RHEL, GKE and the GPU operator's driver container, below the node's root."""


class NodeLibraries:
    """The node's own libraries, and what of them is new or gone; of no node (None) nothing ever is."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._known: dict[tuple[int, int], LibraryFile] = {}

    def look(self) -> tuple[dict[tuple[int, int], LibraryFile], set[tuple[int, int]]]:
        """The files that were not there when it was looked before, and the keys of those that have gone."""
        here = {file.key: file for file in node_libraries(self._root)} if self._root else {}
        before, self._known = self._known, here
        return {key: file for key, file in here.items() if key not in before}, before.keys() - here.keys()


def node_libraries(root: Path) -> list[LibraryFile]:
    """The library files that are there now, each once; those that can not be read are not."""
    found: dict[tuple[int, int], LibraryFile] = {}
    for place in LIBRARY_PLACES:
        with contextlib.suppress(OSError):
            file = library_file(f"{root}/{place}")
            found.setdefault(file.key, file)
    return list(found.values())
