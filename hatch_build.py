"""Puts the probes' compiled objects into the wheel, so that a node needs no compiler (`make wheel`)."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OBJECTS = ("cuda.bpf.o", "nvidia.bpf.o", "cudart.bpf.o")
INSIDE = "gpuledger/_bpf"
LEAVE_OUT = "GPULEDGER_WHEEL_WITHOUT_OBJECTS"
"""Set to 1 for a wheel of any machine, whose agent compiles the probes on the node with bcc."""


class ProbeObjects(BuildHookInterface[Any]):
    """Adds what `make bpf` compiled. The objects are of one kind of machine, and so is the wheel then."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError where the objects were not compiled."""
        if version == "editable" or os.environ.get(LEAVE_OUT) == "1":
            return
        for name in OBJECTS:
            built = Path(self.root, "build", "bpf", name)
            if not built.is_file():
                raise FileNotFoundError(f"{built} is missing: run make bpf, or set {LEAVE_OUT}=1")
            build_data["force_include"][str(built)] = f"{INSIDE}/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
