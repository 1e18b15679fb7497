"""`make test`: all tests in stages, and a second look at a test that failed beside others.

Probes see every process that uses the library they are attached to: tests with an agent, a probe or an
emulated GPU run one after the other. Those that have none wait for brokers most of the time: three files at
once beside them. The demo and the mixes of processes are alone, for they measure.

Servers, agents and a fleet share a machine of which the tests know nothing. A few tests that failed beside
others therefore run once more, alone: those that fail again fail the suite, those that pass are named as
unsteady, with what they printed before. Such a test is a fault to mend, and no reason to doubt what it found
right.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.children import tied

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "suite"
MOST_AGAIN = 5
"""More than these failures of a stage are no unsteadiness."""
FAILED_TESTS = 1
"""pytest's exit code for tests that failed; greater ones tell of a run that was not whole."""


@dataclass(frozen=True)
class Run:
    """One pytest. `quiet`: its output goes to build/suite/NAME.log and is shown when its stage is over."""

    name: str
    arguments: Sequence[str]
    quiet: bool = False

    @property
    def log(self) -> Path:
        return BUILD / f"{self.name}.log"

    @property
    def cache(self) -> Path:
        return BUILD / self.name

    def start(self, cwd: Path, temporary: str) -> subprocess.Popen[bytes]:
        """``temporary``: where its tests put files; a short path, for a socket's has 107 bytes at most."""
        shutil.rmtree(self.cache, ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={self.cache}"]
        command += [f"--basetemp={temporary}/t", *self.arguments]
        if not self.quiet:
            return subprocess.Popen(tied(command), cwd=cwd)
        with self.log.open("wb") as log:
            return subprocess.Popen(tied(command), cwd=cwd, stdout=log, stderr=subprocess.STDOUT)

    def failed(self) -> list[str]:
        """Node ids of the tests that failed."""
        try:
            return sorted(json.loads((self.cache / "v" / "cache" / "lastfailed").read_text()))
        except FileNotFoundError:
            return []


@contextmanager
def started(runs: Sequence[Run], cwd: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The pytests of these runs. Each has temporary files of its own, removed in the end: in the place that
    all share each session sweeps up those of earlier ones, and may meet another that does the same."""
    with ExitStack() as stack:
        places = [TemporaryDirectory(prefix="gl-", ignore_cleanup_errors=True) for _ in runs]
        yield [run.start(cwd, stack.enter_context(place)) for run, place in zip(runs, places, strict=True)]


def stages() -> list[list[Run]]:
    """What runs one after the other; the runs of one stage run at once."""
    integration = sorted((ROOT / "tests" / "integration").glob("test_*.py"))
    with_gpu = [
        str(path.relative_to(ROOT))
        for path in integration
        if path.name.startswith(("test_agent", "test_emulator", "test_dcgm_agent"))
    ]
    chaos = "tests/e2e/test_chaos_short.py"
    kernel = ["tests/kernel"] if platform.machine() == "x86_64" else []
    several = ["--dist", "loadfile"]
    others = [f"--ignore={path}" for path in with_gpu]
    return [
        [Run("quick", ["-n", "2", *several, "tests/unit", "tests/property"])],
        [
            Run("gpu", [*with_gpu, "tests/bpf", *kernel, chaos], quiet=True),
            Run("line", ["-n", "3", *several, "tests/integration", *others]),
        ],
        [Run("whole", ["tests/e2e", f"--ignore={chaos}"])],
    ]


def passed(stage: Sequence[Run], cwd: Path = ROOT) -> bool:
    """Run the stage; whether each of its tests passed, at once or alone afterwards."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with started(stage, cwd) as processes:
        codes = [process.wait() for process in processes]
    for run in stage:
        if run.quiet:
            print(run.log.read_text(errors="replace"), flush=True)
    failed = [test for run in stage for test in run.failed()]
    if not any(codes):
        return True
    if any(code not in (0, FAILED_TESTS) for code in codes) or not 0 < len(failed) <= MOST_AGAIN:
        return False
    print(f"Failed beside others, now alone: {', '.join(failed)}", flush=True)
    with started([Run("again", failed)], cwd) as (again,):
        code = again.wait()
    if code:
        return False
    print(f"UNSTEADY, to be mended: {', '.join(failed)}: failed beside others, passed alone", flush=True)
    return True


def main() -> int:
    """All stages up to the first that fails: 0, 1 when a test failed, 130 when interrupted."""
    begun = time.monotonic()
    try:
        for stage in stages():
            if not passed(stage):
                return 1
            print(f"{' and '.join(run.name for run in stage)}: {time.monotonic() - begun:.0f} s", flush=True)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
