"""Directories of processes that were killed do not pile up, and nobody's is taken from him."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.own_directory import own_directory

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from pathlib import Path
from tests.support.own_directory import own_directory
print(own_directory("mine-", Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def owner(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has one, and where it is."""
    command = [sys.executable, "-c", CODE, str(place)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    (killed, left), (living, kept) = owner(tmp_path), owner(tmp_path)
    (left / "file").touch()
    with killed, living:
        killed.kill()
        killed.wait()
        assert left.is_dir()
        mine = own_directory("mine-", tmp_path)
        assert set(tmp_path.iterdir()) == {kept, mine}
        living.communicate("")
        assert living.returncode == 0
    assert set(tmp_path.iterdir()) == {mine}, "it goes with its owner"
