"""A benchmark that is told to end leaves no files, alone and as one of all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.children import asked_to_end, tied
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
ONE_OF_ALL = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as it has where it is the program
from benchmarks.__main__ import run
run("archive")
"""


@pytest.mark.parametrize("options", [["-m", "benchmarks.archive"], ["-c", ONE_OF_ALL]], ids=["alone", "all"])
def test_a_benchmark_that_is_told_to_end_leaves_no_files(options: Sequence[str], tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}",
    }

    def left() -> list[Path]:
        return list(tmp_path.glob("gpuledger-benchmark-*"))

    command = tied([sys.executable, *options])
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
        until(lambda: left() or process.poll() is not None)
        assert left()
        assert asked_to_end(process) == 143
    until(lambda: not left(), PATIENCE_S)
