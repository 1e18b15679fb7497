"""Fixtures of all tests."""

import os
import tempfile

os.environ["GPULEDGER_LOCKS"] = tempfile.mkdtemp(
    prefix="gpuledger-locks-"
)  # runs beside each other share no nodes

pytest_plugins = ["tests.support.kafka", "tests.support.line"]
