"""The whole agent beside an emulated GPU and a dcgm-exporter: what NVML lacks comes from the exporter, and an
exporter that hangs is told in the batch and stops nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import SampleBatch
from gpuledger.localstack import Kafka, Registry
from tests.emulator import H100, T4, Emulator
from tests.support.exporter import Exporter, exporter
from tests.support.telemetry import ROOT, Told, agent_command, running_agent, telemetry
from tests.support.waiting import until

ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def batches(told: list[Told]) -> list[SampleBatch]:
    return [t.body for t in told if isinstance(t.body, SampleBatch)]


def of_exporter(told: list[Told]) -> dict[tuple[str, Field], set[float]]:
    found: dict[tuple[str, Field], set[float]] = {}
    for batch in batches(told):
        for device, field, source, value in zip(
            batch.device, batch.field, batch.source, batch.value, strict=True
        ):
            if source == SampleSource.DCGM_EXPORTER:
                found.setdefault((batch.devices[int(device)], Field(int(field))), set()).add(float(value))
    return found


def reasons(told: list[Told]) -> set[str]:
    return {
        gap.reason
        for batch in batches(told)
        for gap in batch.gaps
        if gap.source == SampleSource.DCGM_EXPORTER and gap.device < 0
    }


def speak(told: Exporter, uuids: list[str]) -> None:
    told.text = "".join(
        f'{ENGINE}{{UUID="{uuid}"}} 0.25\nDCGM_FI_DEV_GPU_UTIL{{UUID="{uuid}"}} 25\n' for uuid in uuids
    )


def test_the_exporter_fills_in_what_nvml_lacks_and_may_hang(
    new_kafka: Kafka, registry: Registry, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    new_kafka.start()
    settings = BusSettings.load(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)
    apply_topics(settings, partitions=1, replication=1)
    node = unique("node")[-40:]
    options = ["--source", "none", "--window-s", "2", "--dcgm-interval-s", "1"]
    with Emulator([H100, T4]) as emulator, exporter() as dcgm:
        speak(dcgm, emulator.uuids)
        options += ["--dcgm-url", dcgm.url]
        command = agent_command(new_kafka, registry, node, tmp_path / "state", options)
        with running_agent(command, tmp_path / "agent.log", emulator.env) as agent:
            agent.wait_log("epoch_begins")
            until(lambda: bool(of_exporter(telemetry(new_kafka, node))), pause_s=0.5)
            dcgm.behaviour = "hang"
            until(lambda: "timeout" in reasons(telemetry(new_kafka, node)), pause_s=0.5)
            dcgm.behaviour = "ok"
            before = len(telemetry(new_kafka, node))
            until(lambda: bool(of_exporter(telemetry(new_kafka, node)[before:])), pause_s=0.5)
            agent.stop()
    told = telemetry(new_kafka, node)
    hopper, turing = emulator.uuids
    assert of_exporter(told) == {(turing, Field.ENGINE_ACTIVE): {0.25}}, hopper
    starts = sorted({t.headers.window_start_ns for t in told})
    assert starts == list(range(starts[0], starts[-1] + 1, 2_000_000_000))  # no window is left out


def test_without_nvml_an_exporter_alone_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuledger", "agent", "run", "--cluster", "c", "--node", "n"]
    command += ["--state", str(tmp_path), "--source", "none", "--samplers", "none"]
    command += ["--dcgm-url", "http://127.0.0.1:9/metrics", "--bootstrap", "127.0.0.1:9"]
    variables = {"PYTHONPATH": str(ROOT / "services"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "--dcgm-url needs NVML" in done.stderr
