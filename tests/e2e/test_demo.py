"""The README's promise: the demo runs the whole line on real parts, and what it shows is right."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 32  # at least two whole windows, wherever in a window it begins
LIMIT_S = 800
WITHOUT_EBPF = [
    "setpriv",
    "--bounding-set=-sys_admin,-bpf,-perfmon",
    "--inh-caps=-sys_admin,-bpf,-perfmon",
]


def demo(directory: Path, prefix: list[str], seconds: int) -> tuple[str, dict[str, Any]]:
    """What a short demo prints, and its report."""
    command = [*prefix, sys.executable, "-m", "tests.e2e.demo"]
    command += ["--seconds", str(seconds), "--directory", str(directory)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, "KEEP": ""}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return done.stdout, report


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The demo as it is."""
    return demo(tmp_path_factory.mktemp("demo"), [], SECONDS)


def test_every_nano_unit_and_nanosecond_is_accounted_for(shown: tuple[str, dict[str, Any]]) -> None:
    _, report = shown
    assert report["conservation_error_nano"] == 0
    assert report["conservation_error_ns"] == 0
    assert float(report["total"]) > 0
    assert report["windows"] >= 2
    assert report["charges"] > report["windows"]


def test_no_event_is_lost(shown: tuple[str, dict[str, Any]]) -> None:
    _, report = shown
    assert report["lost_events"] == 0
    assert report["events"] > 1000


def test_shares_are_near_the_truth(shown: tuple[str, dict[str, Any]]) -> None:
    _, report = shown
    assert report["source"] == "ebpf", "the tests run where eBPF is possible"
    assert report["share_error_max_points"] <= 5
    assert report["share_error_ebpf_alone_points"] <= 5


def test_it_says_how_soon_rows_came(shown: tuple[str, dict[str, Any]]) -> None:
    _, report = shown
    assert 0 < report["row_latency_p50_s"] <= report["row_latency_p99_s"]


def test_breaches_come_each_once_and_alertmanager_has_them(
    shown: tuple[str, dict[str, Any]],
) -> None:
    """The demo itself ends with an error where the ledger is beyond another line than was told."""
    output, report = shown
    assert report["breaches"] == report["alertmanager_received"] == 2, "both lines of the smaller budget"
    assert report["breach_latency_p99_s"] >= 0
    assert output.count("BREACH   Vision, any hour has crossed 50% of 0.12 USD") == 1
    assert output.count("RECEIPT  Alertmanager has it: GpuBudgetThreshold") == report["breaches"]
    assert output.index("BREACH") < output.index("RECEIPT") < output.index("Spend by team")


def test_it_shows_how_budgets_stand_and_what_to_do(shown: tuple[str, dict[str, Any]]) -> None:
    output, _ = shown
    (vision,) = (line for line in output.splitlines() if line.startswith(" Vision, any hour  "))
    assert "█" * 8 in vision, "the bar of the budget that breaks"
    (recommended,) = (line for line in output.splitlines() if line.startswith("1. "))
    assert recommended.startswith("1. warm idle: demo/serving/Pod/embedder-5c4b")
    assert "USD a month" in output


def test_it_shows_who_spent_what(shown: tuple[str, dict[str, Any]]) -> None:
    output, _ = shown
    assert output.splitlines()[0].startswith("Real eBPF probes")
    for word in ("vision", "search", "(host)", "(pool)", "research/finetune-0", "held idle", "unallocated"):
        assert word in output


def test_without_ebpf_it_says_so_first_and_simulates_the_node(tmp_path: Path) -> None:
    output, report = demo(tmp_path / "demo", WITHOUT_EBPF, 22)
    assert output.splitlines()[0].startswith("eBPF is not possible here")
    assert report["source"] == "simulated"
    assert report["conservation_error_nano"] == report["conservation_error_ns"] == 0
    assert report["breaches"] == report["alertmanager_received"]
    assert report["share_error_max_points"] <= 1, "the simulated node's truth is exact"
