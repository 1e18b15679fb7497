"""An agent as a node runs it, watched from outside: its own CPU time, its resident memory, its metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuledger.agent.footprint import SETTLED_S
from gpuledger.agent.privileges import NEEDED

COMMAND = Path(sys.executable).parent / "gpuledger"
NOBODY = "127.0.0.1:9"  # the discard port: no broker answers there
KIB_PER_MIB = 1024
NS_PER_S = 1e9
START_S = 240.0
STRANGER = 64998  # a user that owns nothing, and whom no other work on the machine runs as


def memory_mib(pid: int) -> dict[str, float]:
    """VmRSS, and what it is made of: RssAnon (the process's own), RssFile (shared with the page cache)."""
    found = {}
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("VmRSS", "RssAnon", "RssFile", "RssShmem"):
            found[name] = int(rest.split()[0]) / KIB_PER_MIB
    return found


def resident_mib(pid: int) -> float:
    """VmRSS of a process."""
    return memory_mib(pid)["VmRSS"]


def cpu_s(pid: int) -> float:
    """Seconds on a core of all threads of a process, from the scheduler's own nanoseconds."""
    total = 0
    for task in Path("/proc", str(pid), "task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:  # the thread has ended
            continue
    return total / NS_PER_S


def has_programs(pid: int) -> bool:
    """Whether the process has programs in the kernel."""
    try:
        return any("bpf-prog" in str(entry.readlink()) for entry in Path("/proc", str(pid), "fd").iterdir())
    except OSError:  # a descriptor was closed meanwhile
        return False


def apart() -> list[str]:
    """The start of a command that runs the rest as a user of its own, with the agent's capabilities but for
    SYS_PTRACE: it sees into processes of that user alone, so other work with probes can go on beside it."""
    names = [one.name.lower() for one in NEEDED if one.name != "SYS_PTRACE"]
    given = "-all" + "".join(f",+{name}" for name in names)
    sets = ["--bounding-set", given, "--inh-caps", given, "--ambient-caps", given]
    return ["setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups", *sets]


@contextmanager
def agent(
    directory: Path,
    options: Sequence[str],
    bootstrap: str = NOBODY,
    registry: str = f"http://{NOBODY}",
    environment: dict[str, str] | None = None,
    start: Sequence[str] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """An agent whose probes are in the kernel; its log is ``directory``/agent.log. ``start``: of its command,
    for instance `apart`, whose user must be able to write to ``directory``/state."""
    command = [*start, str(COMMAND), "agent", "run", "--cluster", "bench", "--node", "one"]
    command += ["--state", str(directory / "state"), "--bootstrap", bootstrap, "--registry", registry]
    log = directory / "agent.log"
    with (
        log.open("wb") as output,
        subprocess.Popen([*command, *options], stderr=output, env=environment or dict(os.environ)) as process,
    ):
        deadline = time.monotonic() + START_S
        while "epoch_begins" not in log.read_text() or not has_programs(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise SystemExit(f"the agent did not start: {log.read_text()}")
            time.sleep(0.1)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(START_S)
            finally:
                process.kill()


def settle(process: subprocess.Popen[bytes]) -> None:
    """Wait until the agent has given back what only its start needed."""
    time.sleep(SETTLED_S + 5)
    if process.poll() is not None:
        raise SystemExit(f"the agent ended with status {process.returncode}")
