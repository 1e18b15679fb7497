"""``make test-gpu`` (``python -m tests.gpu``): the agent's parts beside a real CUDA program on a real GPU.

Without a GPU it says so in one line and ends well, claiming nothing. ``--emulated`` is for the test of this
very script: the same over the emulated GPU, in whose environment it must be started.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuledger.agent.nvml import NvmlSession
from gpuledger.contract.errors import Unsupported
from tests.gpu.checks import ALL, ON_SILICON_ONLY, Check, State
from tests.gpu.observed import Observed, observe

REPORT = Path(__file__).resolve().parents[2] / "build" / "gpu" / "report.json"
EMULATOR_VARIABLE = "GPUEMU_SHM"
FAILED, WRONG_USE = 1, 2


def gpus() -> list[str]:
    """Names of the GPUs that NVML lists; none where there is no NVML."""
    try:
        session = NvmlSession()
    except Unsupported:
        return []
    try:
        return [device.model for device in session.devices]
    finally:
        session.close()


def judge(seen: Observed, emulated: bool) -> list[Check]:
    """All checks; a check that falls over has failed."""
    found = []
    for check in ALL if emulated else (*ALL, *ON_SILICON_ONLY):
        try:
            found.append(check(seen))
        except Exception as error:  # what it met is as unexpected as a wrong number
            found.append(Check(check.__name__, State.FAILED, f"{type(error).__name__}: {error}"))
    return found


def report(checks: list[Check], names: list[str], emulated: bool) -> dict[str, Any]:
    """What is written for machines to read."""
    return {
        "emulated": emulated,
        "gpus": names,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "checks": [asdict(check) for check in checks],
    }


def main(arguments: list[str]) -> int:
    """Exit status: 0 where all that is here holds, 1 where something does not."""
    parser = argparse.ArgumentParser(prog="make test-gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--emulated", action="store_true", help="over the emulated GPU")
    parser.add_argument("--report", type=Path, default=REPORT, help="where to write what was found")
    options = parser.parse_args(arguments)
    if options.emulated != (EMULATOR_VARIABLE in os.environ):
        print(
            "an emulated GPU is no GPU: --emulated belongs into its environment, and only there",
            file=sys.stderr,
        )
        return WRONG_USE
    names = gpus()
    if not names:
        print("make test-gpu: there is no NVIDIA GPU here, so nothing was tested")
        return 0
    try:
        checks = judge(observe(), options.emulated)
    except (Unsupported, RuntimeError) as error:
        checks = [Check("the run itself", State.FAILED, str(error))]
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(
        json.dumps(report(checks, names, options.emulated), indent=2, default=str) + "\n"
    )
    print(f"{'emulated: ' if options.emulated else ''}{', '.join(names)}; kernel {os.uname().release}")
    width = max(len(check.name) for check in checks)
    for check in checks:
        print(f"{check.state:9} {check.name:{width}}  {check.detail}")
    print(f"figures: {options.report}")
    return FAILED if any(check.state is State.FAILED for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
