"""What the tests of the probes are made of: a library and callers built here, pods, processes in them."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuledger.agent.probes import Limits, LoaderKind, ProbeSource, RawEvents
from gpuledger.agent.probes.libraries import LibraryScanner
from gpuledger.agent.probes.loader import Loader
from tests.emulator.cgroups import in_cgroup, make_pod_cgroup, remove_pod_cgroup
from tests.support.waiting import until

SOURCES = Path(__file__).parent / "src"
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-fno-ipa-icf", "-pthread", "-I", str(SOURCES)]
LOADERS = (LoaderKind.LIBBPF, LoaderKind.BCC)
WAIT_S = 240.0  # no process here runs for more than a second, but the machine may be busy
ROOMY_PAGES = 64  # 1,900 mappings a CPU: room for all programs that begin on the machine between two looks


@dataclass(frozen=True)
class Bench:
    """A directory with ``libcuda.so.1`` and the programs that use it."""

    directory: Path

    @property
    def library(self) -> Path:
        return self.directory / "libcuda.so.1"

    def program(self, name: str) -> Path:
        return self.directory / name

    def copy_library(self, directory: Path) -> Path:
        """A library file of its own: another inode, which no probe is on."""
        directory.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(self.library, directory / "libcuda.so.1"))


@contextmanager
def started(
    library: Path | None = None,
    limits: Limits | None = None,
    load: Callable[[Limits], Loader] | None = None,
    loader: LoaderKind = LoaderKind.LIBBPF,
    proc: Path = Path("/proc"),
    node_root: Path | None = None,
) -> Iterator[ProbeSource]:
    """A source of the test's own; given another ``proc`` it finds no library by itself. Each call is a
    record, however fast they come: a test that wants tallies sets their rate."""
    source = ProbeSource(
        limits or Limits(ring_bytes=1 << 20),
        loader=loader,
        load=load,
        scanner=LibraryScanner(proc),
        tally_calls_per_s=None,
        node_root=node_root,
    )
    source.start()
    try:
        if library is not None:
            source.preattach(library)
        yield source
    finally:
        source.close()


def build(directory: Path) -> Bench:
    bench = Bench(directory)
    shared = ["-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"]
    compile_c(["library.c"], bench.library, shared)
    for name in ("calls", "loop", "bursts", "phases"):
        compile_c([f"{name}.c"], bench.program(name), [f"-L{directory}", "-l:libcuda.so.1"])
    compile_c(["late.c"], bench.program("late"), ["-ldl"])
    return bench


def compile_c(names: Sequence[str], output: Path, options: Sequence[str]) -> None:
    sources = [str(SOURCES / name) for name in names]
    done = subprocess.run(
        ["cc", *FLAGS, *sources, "-o", str(output), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Pod:
    uid: str
    container: str
    directory: Path

    @property
    def cgroup_id(self) -> int:
        return self.directory.stat().st_ino


@contextmanager
def pod() -> Iterator[Pod]:
    """A pod-shaped cgroup, removed at the end."""
    uid, container = str(uuid.uuid4()), secrets.token_hex(32)
    directory = make_pod_cgroup(uid, container)
    try:
        yield Pod(uid, container, directory)
    finally:
        remove_pod_cgroup(directory)


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """A mount at ``place``, which nobody finds later: what held it may hold it a moment longer."""
    subprocess.run(["mount", *options, place], check=True)
    try:
        yield place
    finally:
        try:
            until(lambda: subprocess.run(["umount", place], check=False).returncode == 0)
        except AssertionError:
            subprocess.run(["umount", "--lazy", place], check=True)
            raise


class Running:
    """A process with text pipes; ends with its ``with`` block."""

    def __init__(self, command: Sequence[str | Path], libraries: Path, cgroup: Path | None = None) -> None:
        words = [str(word) for word in command]
        self.process = subprocess.Popen(
            in_cgroup(words, cgroup) if cgroup else words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"LD_LIBRARY_PATH": str(libraries), "PATH": "/usr/bin:/bin"},
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line that it prints. Raises AssertionError where it has ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended: status {self.process.wait(WAIT_S)}"
        return line.strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self) -> str:
        """What it still prints until it has ended well."""
        out, _ = self.process.communicate("\n", WAIT_S)
        assert self.process.returncode == 0
        return out


def run(command: Sequence[str | Path], libraries: Path, cgroup: Path | None = None) -> tuple[int, str]:
    """(pid, output) of a process that has ended well."""
    with Running(command, libraries, cgroup) as running:
        return running.pid, running.finish()


def events_of(source: ProbeSource, *pids: int) -> RawEvents:
    """What these processes did since the last drain; other processes of the machine are left out."""
    events = source.drain()
    return events[np.isin(events["pid"], pids)]
