"""Resident memory and start time of the node agent, by how its probes get into the kernel.

For each loader: a bare source of events (started, nothing attached), and the whole agent as a node runs it,
with no Kafka to send to, after a while of its loop: `python -m benchmarks.agent_memory`. Needs root, both
loaders (`make bpf`; python3-bpfcc and kernel headers) and some 30 s.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes import LoaderKind
from gpuledger.agent.probes.loading import loader_problem

RUNS = 3
SETTLE_S = 5.0  # some fifty rounds of the loop: what it allocates once is allocated
KIB_PER_MIB = 1024
COMMAND = Path(sys.executable).parent / "gpuledger"
NOBODY = "127.0.0.1:9"  # the discard port: no broker answers there

SOURCE = """
import sys, time
from gpuledger.agent.probes import LoaderKind, ProbeSource
began = time.monotonic()
source = ProbeSource(loader=LoaderKind(sys.argv[1]))
source.start()
print(1e3 * (time.monotonic() - began), flush=True)
sys.stdin.readline()
"""


def resident_mib(pid: int) -> float:
    """VmRSS of a process."""
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / KIB_PER_MIB
    raise SystemExit(f"agent_memory: process {pid} tells no VmRSS")


def attached(pid: int) -> bool:
    """Whether the process has programs in the kernel."""
    try:
        return any("bpf-prog" in str(entry.readlink()) for entry in Path("/proc", str(pid), "fd").iterdir())
    except OSError:  # a descriptor was closed meanwhile
        return False


def bare(loader: LoaderKind) -> tuple[float, float]:
    """(ms that `start` takes, MiB resident) of a process with nothing but the probes."""
    command = [sys.executable, "-c", SOURCE, loader.value]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        started_ms = float(process.stdout.readline())
        resident = resident_mib(process.pid)
        process.stdin.close()
    return started_ms, resident


def agent(loader: LoaderKind) -> float:
    """MiB resident of a whole agent."""
    with tempfile.TemporaryDirectory() as state:
        command = [str(COMMAND), "agent", "run", "--cluster", "memory", "--node", "one"]
        command += ["--state", state, "--bootstrap", NOBODY, "--samplers", "none", "--loader", loader.value]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not attached(process.pid):
                time.sleep(0.1)
            time.sleep(SETTLE_S)
            if process.poll() is not None:
                raise SystemExit(f"agent_memory: the agent ended with status {process.returncode}")
            resident = resident_mib(process.pid)
            process.send_signal(signal.SIGTERM)
    return resident


def main() -> None:
    for loader in (LoaderKind.LIBBPF, LoaderKind.BCC):
        if (problem := loader_problem(loader)) is not None:
            raise SystemExit(f"agent_memory: {problem}")
    sources = {loader: [bare(loader) for _ in range(RUNS)] for loader in (LoaderKind.LIBBPF, LoaderKind.BCC)}
    agents = {loader: Runs(tuple(agent(loader) for _ in range(RUNS))) for loader in sources}
    starts = {loader: Runs(tuple(ms for ms, _ in taken)) for loader, taken in sources.items()}
    alone = {loader: Runs(tuple(mib for _, mib in taken)) for loader, taken in sources.items()}
    for name, runs, unit in (
        ("agent_memory", agents, "MiB"),
        ("agent_probes_memory", alone, "MiB"),
        ("agent_probes_start", starts, "ms"),
    ):
        libbpf, bcc = runs[LoaderKind.LIBBPF], runs[LoaderKind.BCC]
        write_figure(
            name,
            libbpf.median,
            unit,
            bcc.median,
            libbpf.median / bcc.median,
            libbpf.n,
            median=libbpf.median,
            spread=libbpf.spread,
            baseline_name="the same with the probes compiled by bcc on the node",
            baseline_spread=bcc.spread,
        )


if __name__ == "__main__":
    main()
