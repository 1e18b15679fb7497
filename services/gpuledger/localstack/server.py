"""One local server process: started, awaited, stopped, killed and started again on the same port."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuledger.localstack.errors import StackError

LOOPBACK = "127.0.0.1"
# Below Linux' ephemeral range (32768 and up): no outgoing connection can take the port while its server
# is down, and no client that retries the closed port can connect to itself.
FIRST_PORT, LAST_PORT = 20_000, 32_000
START_TIMEOUT_S = 240.0  # 2 s on an idle machine; one with two cores under a load of 30 has taken 30
PID_TIMEOUT_S = 60.0  # the supervisor writes it in milliseconds
STOP_TIMEOUT_S = 15.0  # the supervisor kills after 10 s
POLL_S = 0.05
LOG_LINES_SHOWN = 25
START_ATTEMPTS = 3  # another process may take a port between its choice and its use
_SUPERVISOR = Path(__file__).with_name("supervise.py")


def free_port() -> int:
    """A loopback port that nobody listens on now, outside the ephemeral range.

    No other call gets it while this process lives, here or in another process: between its choice and its
    use, and while its server is down, it is not given away.
    """
    for _ in range(200):
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with contextlib.closing(socket.socket()) as probe:
            try:
                probe.bind((LOOPBACK, port))
                _reserve(port)
            except OSError:
                continue
            return port
    raise StackError(f"no free port on {LOOPBACK} between {FIRST_PORT} and {LAST_PORT}")


def _reserve(port: int) -> None:
    """Take the port's name among abstract sockets, which the kernel gives back when this process has ended.
    Raises OSError where another has it."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0gpuledger-port-{port}")
    except OSError:
        mark.close()
        raise
    mark.detach()


def port_open(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def class_archive(build_dir: Path, name: str) -> Path:
    """Where the class archive of that server is, if it was made."""
    return build_dir / f"{name}.jsa"


def short_lived_java(build_dir: Path, name: str) -> list[str]:
    """The JVM's options for a server that lives for minutes: a quick start before the greatest speed."""
    archive = class_archive(build_dir, name)
    shared = [f"-XX:SharedArchiveFile={archive.resolve()}"] if archive.exists() else []
    return ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *shared]


class Server(ABC):
    """A supervised process with a data directory, which it owns, and a log in it.

    Subclasses say how to choose ports, prepare the directory, run, and tell readiness. `begin` and
    `wait_ready` are the two halves of `start`, so that several servers can come up side by side. It
    dies with the process that started it, however that ends. Not for use from several threads at once.
    """

    name = "server"

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir / f"{self.name}.log"
        self._pid_path = data_dir / f"{self.name}.pid"
        self._process: subprocess.Popen[bytes] | None = None
        self._ports_chosen = False

    @abstractmethod
    def choose_ports(self) -> None:
        """Pick ports for a first start; a later one keeps them."""

    @abstractmethod
    def command(self) -> list[str]:
        """Prepare the data directory if need be and say what to run."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether clients are served now."""

    @abstractmethod
    def after_start(self) -> None:
        """Called once the server is ready, at each start."""

    def start(self) -> Self:
        """Start and return when it serves; raises StackError with the log's end."""
        for attempt in range(START_ATTEMPTS):
            self.begin()
            try:
                self.wait_ready()
            except StackError as error:
                self.stop()
                if attempt + 1 == START_ATTEMPTS or "ddress already in use" not in str(error):
                    raise
                self._ports_chosen = False
                continue
            return self
        raise AssertionError("unreachable: the last attempt returns or raises")

    def begin(self) -> None:
        """Spawn the process and return at once; `wait_ready` must follow."""
        if self.running:
            raise StackError(f"{self.name} in {self.data_dir} is running already")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if not self._ports_chosen:
            self.choose_ports()
            self._ports_chosen = True
        command = self.command()
        self._pid_path.unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_SUPERVISOR),
                    str(os.getpid()),
                    str(self._pid_path),
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data_dir,
                start_new_session=True,  # Ctrl-C goes to the caller, who stops servers in his own order
            )
        atexit.register(self.stop)

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when the server answers; raises StackError when it ended or the time is over."""
        self._until(self.is_ready, timeout_s)
        self.after_start()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help; nothing to do when it is not running."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._pid_path.unlink(missing_ok=True)

    def kill9(self) -> None:
        """End it as a power cut does: SIGKILL to the server itself, no warning, no flush."""
        pid = self.pid
        os.kill(pid, 9)
        assert self._process is not None
        self._process.wait()
        self._process = None
        atexit.unregister(self.stop)

    def restart(self) -> None:
        """Start again on the same ports and data; stops it first if it runs."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the server itself; raises StackError when it is not running."""
        self._until(
            lambda: self._pid_path.exists() and self._pid_path.read_text().endswith("\n"), PID_TIMEOUT_S
        )
        return int(self._pid_path.read_text())

    def _until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.running:
            if condition():
                return
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} is not ready after {timeout_s:.0f} s; {self.log_end()}")
            time.sleep(POLL_S)
        status = (
            "was never started" if self._process is None else f"ended with status {self._process.returncode}"
        )
        raise StackError(f"{self.name} {status}; {self.log_end()}")

    def log_end(self) -> str:
        """The last lines that it wrote, for a message."""
        if not self.log_path.exists():
            return f"it wrote no log at {self.log_path}"
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return f"the end of {self.log_path}:\n  " + "\n  ".join(lines)

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
