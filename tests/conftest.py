"""Fixtures of all tests."""

import os

from hypothesis import settings

from tests.support.own_directory import own_directory

_locks = own_directory("gpuledger-nodes-")  # runs beside each other share no nodes
_locks.chmod(0o1777)  # agents of other users too
os.environ["GPULEDGER_LOCKS"] = str(_locks)

settings.register_profile("any machine", deadline=None)  # what takes long is the benchmarks' to say
settings.load_profile("any machine")

pytest_plugins = ["tests.support.kafka", "tests.support.line"]
