"""The stepped clock of the chaos runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.stepped import CLOCK, set_step, step_ns

ROOT = Path(__file__).parents[2]
YEAR_NS = 365 * 86_400 * 1_000_000_000
SHOW = (
    "import runpy, gpuledger.cli as cli; from gpuledger.contract.clock import SystemClock;"
    "cli.main = lambda: print(SystemClock().unix_ns());"
    "runpy.run_module('tests.chaos.stepped', run_name='__main__')"
)


def test_a_clock_is_right_until_it_is_stepped_and_can_be_stepped_back(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    assert step_ns(clock) == 0
    set_step(clock, -7)
    assert step_ns(clock) == -7
    set_step(clock, 0)
    assert step_ns(clock) == 0


def test_a_process_with_a_stepped_clock_reads_it(tmp_path: Path) -> None:
    set_step(tmp_path / "clock", YEAR_NS)
    environment = os.environ | {CLOCK: str(tmp_path / "clock"), "PYTHONPATH": str(ROOT)}
    read = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
    )
    assert int(read.stdout) > time.time_ns() + YEAR_NS // 2
