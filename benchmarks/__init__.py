"""Benchmarks: each prints its figure and writes it to build/figures/NAME.json.

Run one from the repository root: ``python -m benchmarks.codec``. One that is told to end (SIGTERM) leaves
neither processes nor files.
"""

import signal
import sys
from types import FrameType
from typing import NoReturn

_TOLD_TO_END = 128 + signal.SIGTERM


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(_TOLD_TO_END)


if sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("benchmarks"):
    signal.signal(signal.SIGTERM, _end)
