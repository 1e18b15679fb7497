"""The second look of `make test`: it forgives a test that needs to be alone, and nothing else."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.suite import MOST_AGAIN, ROOT, Run, passed, stages

STEADY = "def test_steady() -> None:\n    pass\n"
BROKEN = "def test_broken() -> None:\n    raise AssertionError('always')\n"
ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(1))
def test_once(number: int) -> None:
    seen = Path(__file__).with_suffix(f".seen{number}")
    first = not seen.exists()
    seen.touch()
    assert not first, "beside others"
"""
BINDS = """
import socket
from pathlib import Path

def test_with_a_name_that_is_quite_as_long_as_those_of_tests_that_say_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    print("bound", path)
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tests.suite.BUILD", tmp_path / "build")
    return tmp_path


def stage(directory: Path, *sources: str) -> list[Run]:
    """A run for each file, in a folder of its own."""
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -p no:xdist -p no:timeout\n")
    runs = []
    for number, source in enumerate(sources):
        path = directory / f"test_{number}.py"
        path.write_text(source)
        runs.append(Run(f"run-{number}", [str(path)], quiet=number > 0))
    return runs


def test_a_test_that_passes_alone_is_named_and_forgiven(
    build: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert passed(stage(build, STEADY, ONCE), build)
    printed = capfd.readouterr().out
    assert "beside others" in printed  # what it said when it failed
    assert "UNSTEADY, to be mended: test_1.py::test_once[0]" in printed


def test_a_test_that_fails_twice_fails_the_stage(build: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not passed(stage(build, ONCE, BROKEN), build)
    assert "UNSTEADY" not in capfd.readouterr().out


def test_many_failures_are_no_unsteadiness(build: Path) -> None:
    runs = stage(build, ONCE.replace("range(1)", f"range({MOST_AGAIN + 1})"))
    assert not passed(runs, build)
    assert passed(runs, build)  # each passes the second time, which was not given


def test_a_run_that_was_not_whole_fails_the_stage(build: Path) -> None:
    assert not passed([Run("nothing", ["no-such-file.py"])], build)
    assert not passed(stage(build, "import os\n\ndef test_ends() -> None:\n    os._exit(3)\n"), build)


def test_failures_of_an_earlier_run_are_not_taken_for_this_one(build: Path) -> None:
    (run,) = stage(build, BROKEN)
    assert not passed([run], build)
    (run,) = stage(build, STEADY)
    assert passed([run], build)
    assert run.failed() == []


def test_each_run_has_temporary_files_of_its_own_with_short_paths_and_leaves_none(
    build: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = [replace(run, arguments=["-s", *run.arguments]) for run in stage(build, BINDS, BINDS)]
    assert passed(runs, build)
    sockets = [Path(path) for path in re.findall(r"bound (\S+)", capfd.readouterr().out)]
    roots = {path.parents[2] for path in sockets}
    assert len(roots) == 2
    assert not any(root.exists() for root in roots)
    of_a_worker = len("/popen-gw10")
    assert all(len(str(path)) + of_a_worker < 108 for path in sockets)


def test_every_test_file_is_run_by_one_stage() -> None:
    """A new folder or a renamed file can not fall out of `make test`."""
    run = {}
    for each in (run for stage in stages() for run in stage):
        folders = [Path(ROOT, argument) for argument in each.arguments if argument.startswith("tests/")]
        left_out = {Path(ROOT, a.partition("=")[2]) for a in each.arguments if a.startswith("--ignore=")}
        for folder in folders:
            for path in [folder] if folder.is_file() else sorted(folder.rglob("test_*.py")):
                if path not in left_out:
                    assert path not in run, f"{path} is run by {run[path]} and {each.name}"
                    run[path] = each.name
    missing = {path.parent.name for path in set((ROOT / "tests").rglob("test_*.py")) - set(run)}
    assert missing == (set() if platform.machine() == "x86_64" else {"kernel"})
