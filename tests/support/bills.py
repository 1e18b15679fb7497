"""`gpuledger charge` as people call it, and scrapes to call it with. One GPU costs 12.29 an hour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.charge.cli import charge

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NINE = "2026-03-02T09:00:00Z"
METRICS = ["--samples", f"{EXAMPLES}/metrics.txt@{NINE}"]
PRICES = ["--prices", str(EXAMPLES / "prices.yaml")]
LISTING = ["--holdings", str(EXAMPLES / "podresources.json")]
PODS = ["--holdings", str(EXAMPLES / "pods.json")]
AGENT = [
    *("--holdings", str(EXAMPLES / "agent" / "Holdings.avro")),
    *("--samples", str(EXAMPLES / "agent" / "SampleBatch.avro")),
    *("--events", str(EXAMPLES / "agent" / "EventBatch.avro")),
]
HOUR_NANO = 12_290_000_000
SECOND = 1_000_000_000
A_WINDOWS_ROUNDING = 60  # nano, of an hour: amounts are whole in each of its minutes
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
H100 = "NVIDIA H100 80GB HBM3"

app = typer.Typer()
app.command()(charge)


def printed(*arguments: str) -> str:
    """What is written to a pipe."""
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def bill(*arguments: str) -> dict[str, Any]:
    """The bill as JSON; it must add up."""
    answer: dict[str, Any] = json.loads(printed(*arguments, "--json"))
    assert (answer["conservation_error_nano"], answer["conservation_error_ns"]) == (0, 0)
    return answer


def line(answer: dict[str, Any], pod: str, device: str = "GPU-") -> dict[str, Any]:
    """The only line of a pod on a device."""
    found = [one for one in answer["lines"] if one["pod"] == pod and device in one["device"]]
    assert len(found) == 1, [(one["pod"], one["device"]) for one in answer["lines"]]
    return dict(found[0])


def nano(amount: float) -> Any:
    """An amount of an hour, to what its windows may round."""
    return pytest.approx(amount * SECOND, abs=A_WINDOWS_ROUNDING)


def uuid(gpu: int) -> str:
    """UUID of a GPU of ``scrape``."""
    return f"GPU-{gpu:08d}-0000-0000-0000-000000000000"


def exported(field: str, gpu: int, value: float, more: str = "", host: str = "n", model: str = H100) -> str:
    """A line as dcgm-exporter prints it."""
    head = f'gpu="{gpu}",UUID="{uuid(gpu)}",modelName="{model}"'
    return f'{field}{{{head},Hostname="{host}"{more}}} {value}\n'


def of_pod(name: str, slot: int | None = None, namespace: str = "ml") -> str:
    """The labels of a pod, with the number of its time-slice."""
    slot_label = "" if slot is None else f',vgpu="{slot}"'
    return f',namespace="{namespace}",pod="{name}",container="main"{slot_label}'


def scrape(directory: Path, name: str, *lines: tuple[str, int, float], more: str = "") -> str:
    """A file of (field, GPU, value) as dcgm-exporter prints them."""
    return written(directory, name, *(exported(*values, more=more) for values in lines))


def written(directory: Path, name: str, *lines: str) -> str:
    """A file of lines."""
    path = directory / name
    path.write_text("".join(lines))
    return str(path)
