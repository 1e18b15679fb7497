"""What a test starts ends with it, also when the test is killed."""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTER = """
import subprocess, sys, time
from tests.support.children import tied
code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
child = subprocess.Popen(tied([sys.executable, "-c", code]))
time.sleep(60)
"""


def test_a_child_does_not_outlive_a_parent_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())  # it says so itself: from then on it is tied
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.05)
