"""Start and stop the emulated GPU and the processes that use it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.emulator.cgroups import in_cgroup
from tests.emulator.devices import DeviceSpec, device_uuid
from tests.emulator.truth import Truth, read_truth

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "emulator"
LIBCUDA = BUILD / "lib" / "libcuda.so.1"
LIBCUDART = BUILD / "lib" / "libcudart.so.12"
MEMORY = Path("/dev/shm")  # the model changes all the time; it belongs into memory
START_S = 240.0  # gpud starts and ends in milliseconds; a loaded machine may need longer
STOP_S = 1.0  # a workload that waits for a long queue does not see SIGTERM before its end


class EmulatorError(Exception):
    """The emulator could not be built, started or used."""


def build() -> None:
    """Compile what is not up to date. Raises EmulatorError with the compiler's words."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in parallel build once
        done = subprocess.run(["make", "-s", "-C", str(HERE)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulatorError(f"the emulator does not build:\n{done.stdout}{done.stderr}")


class Emulator:
    """A set of devices, alive between `start` and `stop` (or inside `with`).

    `directory` holds the model and the truth file; without one a directory in memory is made and removed.
    Every process started through `spawn` is stopped with it. Not thread-safe.
    """

    def __init__(
        self, devices: Sequence[DeviceSpec] = (DeviceSpec(),), directory: Path | None = None, seed: int = 1
    ) -> None:
        self.devices = list(devices)
        self.uuids = [
            spec.uuid or device_uuid(seed, i, "GPU" if spec.mig_parent is None else "MIG")
            for i, spec in enumerate(self.devices)
        ]
        self._own_directory = directory is None
        self._directory = directory
        self._daemon: subprocess.Popen[bytes] | None = None
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Emulator:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, whatever happened."""
        self.stop()

    @property
    def directory(self) -> Path:
        """Where the model and the truth lie; only between `start` and `stop`, or where it was given."""
        if self._directory is None:
            raise EmulatorError("the emulator was not started")
        return self._directory

    @property
    def shm_path(self) -> Path:
        """The memory map that the libraries share."""
        return self.directory / "model.shm"

    @property
    def daemon_pid(self) -> int:
        """gpud's pid."""
        if self._daemon is None:
            raise EmulatorError("the emulator was not started")
        return self._daemon.pid

    @property
    def env(self) -> dict[str, str]:
        """Variables for any process that uses CUDA or NVML here: a whole environment, to pass as `env=`."""
        paths = [str(BUILD / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
            "GPUEMU_SHM": str(self.shm_path),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the only order that it has
        }

    def start(self) -> None:
        """Build if needed and start gpud. Raises EmulatorError."""
        build()
        if self._directory is None:
            self._directory = Path(
                tempfile.mkdtemp(prefix="gpuemu-", dir=MEMORY if MEMORY.is_dir() else None)
            )
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [str(BUILD / "bin" / "gpud"), "--stop-on-eof", "--shm", str(self.shm_path)]
        command += ["--truth", str(self._directory / "truth.bin")]
        for spec, uuid_text in zip(self.devices, self.uuids, strict=True):
            command += ["--device", spec.as_argument(uuid_text)]
        # The open stdin is gpud's sign of life from here: it ends when this process does, however that ends.
        self._daemon = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._daemon.stdout is not None
        readable, _, _ = select.select([self._daemon.stdout], [], [], START_S)
        if not readable or self._daemon.stdout.readline() != b"ready\n":
            self.stop()
            raise EmulatorError(f"gpud did not start: {' '.join(command)}")

    def spawn(
        self,
        arguments: Sequence[str],
        cgroup: Path | None = None,
        visible_devices: str | None = None,
        env: Mapping[str, str] | None = None,
        wait_ready: bool = True,
    ) -> subprocess.Popen[str]:
        """Start a workload, e.g. `spawn(["train", "--seconds", "5"])`; its pid is the CUDA process's own.

        `cgroup` is a directory of cgroup v2 that it is in from before its first instruction.
        `visible_devices` becomes CUDA_VISIBLE_DEVICES; `env` is added last. With `wait_ready` it returns when
        the workload holds its memory (or, with --wait, when it waits for a line on stdin).
        stdin and stdout are text pipes; the last line of stdout is the report. Raises EmulatorError.
        """
        command = [str(BUILD / "bin" / "workload"), *arguments]
        process = self.spawn_command(command, cgroup, visible_devices, env)
        speaks = "count" not in arguments or "--wait" in arguments
        if wait_ready and speaks:
            self._await_first_line(process, command)
        return process

    def spawn_command(
        self,
        command: Sequence[str],
        cgroup: Path | None = None,
        visible_devices: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start any program against the emulated libraries, as `spawn` does."""
        variables = self.env
        if visible_devices is not None:
            variables["CUDA_VISIBLE_DEVICES"] = visible_devices
        variables.update(env or {})
        process = subprocess.Popen(
            in_cgroup(command, cgroup) if cgroup else list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    @contextlib.contextmanager
    def nvml_here(self) -> Iterator[None]:
        """Let pynvml in this very process see these devices: nvmlInit and nvmlShutdown lie inside.

        The library is loaded by path beforehand; pynvml's own load by name then finds it.
        """
        ctypes.CDLL(str(LIBCUDA.with_name("libnvidia-ml.so.1")))
        before = os.environ.get("GPUEMU_SHM")
        os.environ["GPUEMU_SHM"] = str(self.shm_path)
        try:
            yield
        finally:
            if before is None:
                del os.environ["GPUEMU_SHM"]
            else:
                os.environ["GPUEMU_SHM"] = before

    def xid(self, index: int, code: int) -> None:
        """Have device `index` report an XID error, as a driver does; after code 79 it is lost for NVML."""
        assert self._daemon is not None
        assert self._daemon.stdin is not None
        self._daemon.stdin.write(f"xid {index} {code}\n".encode())
        self._daemon.stdin.flush()

    def truth(self) -> Truth:
        """The truth up to this instant. For checks alone. Raises TruthError."""
        running = self._daemon is not None and self._daemon.poll() is None
        return read_truth(self.directory / "truth.bin", self.uuids, running)

    def stop(self) -> None:
        """Stop all that was started here, the daemon last; a directory of its own is removed."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            finish(process)
        self._processes.clear()
        if self._daemon is not None:
            finish(self._daemon, START_S)  # only at an orderly end it says that the devices are gone
        self._daemon = None
        if self._own_directory and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _await_first_line(self, process: subprocess.Popen[str], command: Sequence[str]) -> None:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_S)
        line = process.stdout.readline() if readable else ""
        if line not in ("ready\n", "waiting\n"):
            finish(process)
            raise EmulatorError(f"{' '.join(command)} did not start (status {process.returncode})")


def finish(process: subprocess.Popen[str] | subprocess.Popen[bytes], within_s: float = STOP_S) -> int:
    """End a process (SIGTERM, later SIGKILL), reap it, close its pipes; its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
    status = process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    return status
