"""Byte code without docstrings, for the agent's own process: 2.4 MB less, of which numpy's are half.

Python reads it from files beside the sources (PEP 488), and compiles anew what it does not find there, which
takes seconds and leaves holes in the memory. So the option is taken only where the files are: an image makes
them when it is built, a checkout when it is set up: ``python -m gpuledger.agent.byte_code``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

LEVEL: Final = 2  # no asserts, no docstrings
OPTION: Final = "-OO"
_NO_WRITING: Final = "PYTHONDONTWRITEBYTECODE"
_LEAN: Final = Path(__file__).with_name("lean.py")
WHAT_AN_AGENT_HAS: Final = """
from gpuledger.bus.bare_client import bare_client
bare_client()
import gpuledger.agent.footprint, gpuledger.agent.handover, gpuledger.agent.lean, gpuledger.agent.metrics
import gpuledger.agent.holders.file, gpuledger.agent.holders.kubernetes, gpuledger.agent.holders.podresources
import gpuledger.agent.metrics_server
import gpuledger.agent.runtime, gpuledger.agent.tetragon, gpuledger.kube
"""


def options() -> list[str]:
    """Options of the interpreter for a lean agent, by what is prepared."""
    return [OPTION] if Path(cache_from_source(str(_LEAN), optimization=LEVEL)).exists() else []


def prepare() -> int:
    """Write the byte code of what an agent imports, where folders can be written to; an exit status."""
    writing = {name: value for name, value in os.environ.items() if name != _NO_WRITING}
    return subprocess.run([sys.executable, OPTION, "-c", WHAT_AN_AGENT_HAS], env=writing).returncode


if __name__ == "__main__":
    sys.exit(prepare())
