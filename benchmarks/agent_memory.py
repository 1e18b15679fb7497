"""Resident memory and start time of the node agent, by how its probes get into the kernel.

For each loader: a bare source of events (started, nothing attached); the whole agent with nothing but its
probes; and the agent as in a cluster: pods from kubelet (gRPC) and API server, NVML of eight GPUs, its
own metrics, a real Kafka, and processes that make 10,000 calls a second: `python -m benchmarks.agent_memory`.
Resident is VmRSS, in which pages of libraries count that the page cache has anyway: each figure says which
part is the process's own (RssAnon). Needs root, both loaders (`make bpf`; python3-bpfcc and kernel headers).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import _calls
from benchmarks._agent import agent, memory_mib, settle
from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes import LoaderKind
from gpuledger.agent.probes.loading import loader_problem
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.localstack import Kafka, Registry, free_port
from tests.emulator import H100, Emulator
from tests.support.kafka import STACK_DIRECTORY
from tests.support.kube_api import NODES, PODS, KubeApi, node, pod
from tests.support.kubelet import Kubelet

LOADERS = (LoaderKind.LIBBPF, LoaderKind.BCC)
RUNS = 3
GPUS, PODS_OF_NODE, CALLS_PER_S = 8, 40, 10_000

SOURCE = """
import sys, time
from gpuledger.agent.probes import LoaderKind, ProbeSource
began = time.monotonic()
source = ProbeSource(loader=LoaderKind(sys.argv[1]))
source.start()
print(1e3 * (time.monotonic() - began), flush=True)
sys.stdin.readline()
"""


def bare(loader: LoaderKind) -> tuple[float, dict[str, float]]:
    """(ms that `start` takes, MiB) of a process with nothing but the probes."""
    command = [sys.executable, "-c", SOURCE, loader.value]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        started_ms = float(process.stdout.readline())
        resident = memory_mib(process.pid)
        process.stdin.close()
    return started_ms, resident


def alone(loader: LoaderKind) -> dict[str, float]:
    """MiB of an agent with nothing but its probes."""
    with tempfile.TemporaryDirectory() as directory:
        options = ["--samplers", "none", "--loader", loader.value]
        with agent(Path(directory), options) as process:
            settle(process)
            return memory_mib(process.pid)


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[list[str]]:
    """A kubelet and an API server with pods, half of which have a GPU; the agent's options to use them."""
    api, kubelet = KubeApi(), Kubelet(directory / "kubelet.sock")
    try:
        api.put(NODES, node("one"))
        for number in range(PODS_OF_NODE):
            api.put(PODS, pod(f"uid-{number}", f"train-{number}", node="one"))
            kubelet.give(f"train-{number}", {"nvidia.com/gpu": [f"GPU-{number}"]} if number % 2 else {})
        yield [
            *("--holders-from", "kubernetes", "--kube-api", api.access.url),
            *("--kubelet-socket", str(kubelet.socket), "--metrics-port", str(free_port())),
        ]
    finally:
        api.close()
        kubelet.down()


def in_a_cluster(loader: LoaderKind, kafka: Kafka, registry: Registry) -> dict[str, float]:
    """MiB of an agent that does all that one does in a cluster."""
    with tempfile.TemporaryDirectory() as name, Emulator([H100] * GPUS) as emulator:
        directory = Path(name)
        caller = _calls.build(directory / "calls")
        with (
            cluster(directory) as options,
            agent(
                directory,
                [*options, "--loader", loader.value],
                kafka.bootstrap,
                registry.url,
                emulator.env,
            ) as process,
            _calls.calling(caller, CALLS_PER_S, 600, 4),
        ):
            settle(process)
            time.sleep(12)  # a window is sent after what the start needed was given back
            return memory_mib(process.pid)


def figure(name: str, taken: dict[LoaderKind, list[dict[str, float]]]) -> None:
    """Write what both loaders take."""
    libbpf, bcc = (Runs(tuple(one["VmRSS"] for one in taken[loader])) for loader in LOADERS)
    write_figure(
        name,
        libbpf.median,
        "MiB",
        bcc.median,
        libbpf.median / bcc.median,
        libbpf.n,
        median=libbpf.median,
        spread=libbpf.spread,
        baseline_name="the same with the probes compiled by bcc on the node",
        baseline_spread=bcc.spread,
        own_mib=median(one["RssAnon"] for one in taken[LoaderKind.LIBBPF]),
        shared_files_mib=median(one["RssFile"] for one in taken[LoaderKind.LIBBPF]),
    )


def main() -> None:
    for loader in LOADERS:
        if (problem := loader_problem(loader)) is not None:
            raise SystemExit(f"agent_memory: {problem}")
    sources = {loader: [bare(loader) for _ in range(RUNS)] for loader in LOADERS}
    figure("agent_probes_memory", {loader: [mib for _, mib in taken] for loader, taken in sources.items()})
    libbpf, bcc = (Runs(tuple(ms for ms, _ in sources[loader])) for loader in LOADERS)
    write_figure(
        "agent_probes_start",
        libbpf.median,
        "ms",
        bcc.median,
        libbpf.median / bcc.median,
        libbpf.n,
        median=libbpf.median,
        spread=libbpf.spread,
        baseline_name="the same with the probes compiled by bcc on the node",
        baseline_spread=bcc.spread,
    )
    figure("agent_memory", {loader: [alone(loader) for _ in range(RUNS)] for loader in LOADERS})
    with (
        tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name,
        Kafka(Path(name, "kafka"), STACK_DIRECTORY) as kafka,
        Registry(Path(name, "registry"), STACK_DIRECTORY) as registry,
    ):
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=1, replication=1)
        taken = {loader: [in_a_cluster(loader, kafka, registry) for _ in range(RUNS)] for loader in LOADERS}
    figure("agent_memory_cluster", taken)


if __name__ == "__main__":
    main()
