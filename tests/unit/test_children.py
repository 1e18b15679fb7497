"""What a test starts ends with it, also when the test is killed."""

import subprocess
import sys
from pathlib import Path

from tests.support.children import asked_to_end, tied
from tests.support.waiting import until

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
    until(lambda: not lives(child))


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:  # it went between the opening and the reading at the latest
        return False


WITH_HANDLER = """
import signal, sys, time
time.sleep(0.5)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(23))
time.sleep(60)
"""


def test_a_child_that_is_asked_to_end_has_its_handler_by_then() -> None:
    with subprocess.Popen(tied([sys.executable, "-c", WITH_HANDLER])) as child:
        assert asked_to_end(child) == 23


def test_a_child_that_has_ended_by_itself_is_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"]) as child:
        assert asked_to_end(child) == 5
