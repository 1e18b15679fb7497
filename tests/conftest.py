"""Fixtures of all tests."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

_locks = tempfile.mkdtemp(prefix="gpuledger-locks-")  # runs beside each other share no nodes
Path(_locks).chmod(0o1777)  # agents of other users too
atexit.register(shutil.rmtree, _locks, ignore_errors=True)
os.environ["GPULEDGER_LOCKS"] = _locks

settings.register_profile("any machine", deadline=None)  # what takes long is the benchmarks' to say
settings.load_profile("any machine")

pytest_plugins = ["tests.support.kafka", "tests.support.line"]
