"""``python -m gpuledger.agent.probes.compile``: makes the objects that the libbpf loader takes.

Done once when the project is built, never on a node. Needs clang and libbpf's headers (Debian: clang,
libbpf-dev); llvm-strip takes the debug information off where it is there.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from gpuledger.agent.probes import cudart
from gpuledger.agent.probes.libbpf import BUILT, DRIVER_BUILT
from gpuledger.agent.probes.loader import CHECKOUT, DRIVER_SOURCE, MAIN_SOURCE
from gpuledger.agent.probes.symbols import Limits, c_preamble, table_digest

_ARCHITECTURES: Final = {"x86_64": "x86", "aarch64": "arm64"}
"""machine -> as libbpf's bpf_tracing.h names it"""
_SURROUNDINGS: Final = "object.h"


def compile_object(
    destination: Path = BUILT,
    main: str = MAIN_SOURCE,
    sources: Path = CHECKOUT / "bpf",
    machine: str = platform.machine(),
) -> None:
    """Makes one object, in place of an older one at once.

    Raises CalledProcessError where the compiler refuses, FileNotFoundError where there is none."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    new = destination.with_suffix(".new")
    with tempfile.TemporaryDirectory() as directory:
        preamble = Path(directory, "preamble.h")
        digest = f'#define TABLE_DIGEST "{table_digest()}"\n'
        preamble.write_text(c_preamble(Limits(), {}) + digest)
        command = ["clang", "-target", "bpf", "-mcpu=v3", "-g", "-O2"]
        command += ["-Wall", "-Werror", "-Wno-unused-function"]
        command += [f"-D__TARGET_ARCH_{_ARCHITECTURES[machine]}", f"-I/usr/include/{machine}-linux-gnu"]
        command += ["-include", str(preamble), "-include", str(sources / _SURROUNDINGS)]
        command += ["-c", str(sources / main), "-o", str(new)]
        subprocess.run(command, check=True)
    if shutil.which("llvm-strip"):
        subprocess.run(["llvm-strip", "-g", str(new)], check=True)
    new.replace(destination)


if __name__ == "__main__":
    compile_object()
    compile_object(DRIVER_BUILT, DRIVER_SOURCE)
    compile_object(cudart.OBJECT_BUILT, cudart.SOURCE)
    sys.exit(0)
