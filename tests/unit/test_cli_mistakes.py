"""Mistakes at the command line: one clear line, an exit code that says whose it is, and no secret."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from gpuledger import cli

NOWHERE = "127.0.0.1:1"
AGENT = ("agent", "run", "--cluster", "c", "--node", "n", "--source", "simulated", "--samplers", "none")


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A service says how it logs for its whole process; the next test's process is this one."""
    yield
    structlog.reset_defaults()


def call(
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    **more: str,
) -> tuple[int, str]:
    """Exit code and stderr of the command."""
    for name in [name for name in os.environ if name.startswith("GPULEDGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", NOWHERE)
    for name, value in more.items():
        monkeypatch.setenv(f"GPULEDGER_{name}", value)
    monkeypatch.setattr(sys, "argv", ["gpuledger", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("sql", "SELECT 1", "--url", "clickhouse://u:s3cr3t@[::1:99999/x"),
        ("sql", "SELECT 1", "--url", "clickhouse://u:s3cr3t@host:99999/x"),
        ("sink", "--url", "http://u:s3cr3t@[x/"),
        ("sink", "--session-timeout", "1e300"),
        ("warehouse", "serve", "--path", "{file}", "--port", "0"),
        ("warehouse", "serve", "--path", "{file}/below", "--port", "0"),
        ("config", "check", "{deep}"),
        (*AGENT, "--state", "{directory}", "--layout", "{deep}"),
        (*AGENT, "--state", "{directory}", "--layout", "{counts}"),
        (*AGENT, "--state", "{directory}", "--launched-ns", "-5"),
        (*AGENT, "--state", "{directory}", "--launched-ns", "99999999999999999999999"),
        (*AGENT, "--state", "{directory}", "--metrics-port", "99999999"),
    ],
)
def test_a_mistake_in_the_call_exits_with_2(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {name: str(tmp_path / name) for name in ("file", "deep", "counts", "directory")}
    (tmp_path / "file").write_text("taken")
    (tmp_path / "deep").write_text("[" * 20_000 + "]" * 20_000)
    (tmp_path / "counts").write_text("gpu_count: many")
    code, said = call(tuple(one.format(**places) for one in arguments), monkeypatch, capsys)
    assert code == 2, said
    assert "s3cr3t" not in said
    lines = said.strip().splitlines()
    assert lines[-1].lower().startswith("error: ")
    assert len(lines) <= 4  # typer shows how the command is called


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WINDOW_S", "7"),
        ("WINDOW_S", "x"),
        ("CLUSTER_WINDOW_S", '{"a": 7}'),
        ("CLUSTER_WINDOW_S", "{"),
        ("METRICS_PORT", "99999"),
    ],
)
def test_a_setting_of_the_processor_that_makes_no_sense_exits_with_2_and_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = call(("processor",), monkeypatch, capsys, **{f"PROCESSOR_{name}": value})
    assert code == 2
    assert len(said.strip().splitlines()) == 1


def test_a_file_that_can_not_be_used_exits_with_1_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("taken")
    code, said = call((*AGENT, "--state", str(tmp_path / "file")), monkeypatch, capsys)
    assert code == 1
    assert said.strip().splitlines()[-1] == f"error: {tmp_path / 'file'}: File exists"
