"""Mistakes at the command line: one clear line, an exit code that says whose it is, and no secret."""

from __future__ import annotations

import logging
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
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
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
        ("agent", "doctor", "--no-load", "--kubelet-url", "foo"),
        ("agent", "doctor", "--no-load", "--kube-api", "ftp://x"),
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


EXAMPLE = "docs/examples/metrics.txt@2026-03-02T09:00:00Z"
BILL = ("charge", "--samples", EXAMPLE, "--for", "1h")
REPLAY = ("replay", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z", "--what-if")
TAKES_A_FILE = {
    "config check": ("config", "check", "{}"),
    "config apply": ("config", "apply", "{}"),
    "charge --samples": ("charge", "--samples", "{}"),
    "charge --events": ("charge", "--events", "{}"),
    "charge --holdings": (*BILL, "--holdings", "{}"),
    "charge --prices": (*BILL, "--prices", "{}"),
    "charge --teams": (*BILL, "--teams", "{}"),
    "prices explain": ("prices", "explain", "--file", "{}"),
    "prices import csv": ("prices", "import", "{}", "--from", "csv"),
    "prices import aws": ("prices", "import", "{}", "--from", "aws"),
    "budget status": ("budget", "status", "--file", "{}"),
    "notify run": ("notify", "run", "--targets", "{}"),
    "inventory run": ("inventory", "run", "--cluster", "c", "--file", "{}"),
    "recommend": ("recommend", "--settings", "{}"),
    "replay --prices": (*REPLAY, "--prices", "{}"),
    "replay --teams": (*REPLAY, "--teams", "{}"),
    "replay --archive": (*REPLAY, "--archive", "{}"),
    "archive list": ("archive", "list", "{}"),
    "archive verify": ("archive", "verify", "{}"),
    "archive compact": ("archive", "compact", "{}"),
}
WRONG_FILES = {
    "missing": None,
    "directory": None,
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "broken": b"kind: prices\nprices: [{id: a,\n",
    "list": b"- a\n- b\n",
    "kind": b"kind: nonsense\n",
}
NO_NODES = ("inventory run", "empty")  # a document that states no node is one


@pytest.mark.parametrize("wrong", WRONG_FILES)
@pytest.mark.parametrize("command", TAKES_A_FILE)
def test_a_wrong_file_is_a_mistake_of_the_call_and_named_before_anything_else_is_asked(
    command: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No broker, registry or warehouse is there: exit code 2 shows that none was waited for."""
    if (command, wrong) == NO_NODES:
        return
    path = tmp_path / wrong
    content = WRONG_FILES[wrong]
    if wrong == "directory":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code, said = call(tuple(one.format(path) for one in TAKES_A_FILE[command]), monkeypatch, capsys)
    assert code == 2, said
    last = said.strip().splitlines()[-1]
    assert "Traceback" not in said
    if (command, wrong) != ("charge --events", "empty"):  # no records at all, so no record's file
        assert str(path) in last
    assert not any(word in last for word in ("_Document", "valid dictionary", "Errno", "Error("))


AWAY = {
    "GPULEDGER_KAFKA_BOOTSTRAP": (("topics", "list"), ("simulate", "--gpus", "8", "--hours", "0.01")),
    "GPULEDGER_WAREHOUSE_URL": (("spend",), ("sql", "SELECT 1"), ("recommend",), ("warehouse", "migrate")),
}


@pytest.mark.parametrize(
    ("variable", "arguments"), [(name, one) for name, calls in AWAY.items() for one in calls]
)
def test_a_service_that_is_away_exits_with_3_and_the_setting_that_says_where_it_is(
    variable: str,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = call(arguments, monkeypatch, capsys, WAREHOUSE_URL="clickhouse://127.0.0.1:1/x")
    assert code == 3, said
    assert "Traceback" not in said
    assert variable in said.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("period", "close", "2026-13", "--yes"), "PERIOD"),
        (("period", "close", "yesterday", "--yes"), "PERIOD"),
        (("replay", "--from", "yesterday", "--to", "2026-01-01T00:00:00Z", "--what-if"), "--from"),
        (("prices", "explain", "--at", "2026-01-01T25:00:00Z"), "--at"),
        (("prices", "commitments", "--back", "soon"), "--back"),
        (("dead-letters", "list", "--since", "yesterday"), "--since"),
        (("explain", "--pod", "ns/p", "--at", "2026-13-01"), "--at"),
        (("charge", "--samples", "docs/examples/metrics.txt", "--for", "never"), "--for"),
        ((*BILL, "--policy", "idle"), "--policy"),
        (("spend", "--by", "nonsense"), "--by"),
    ],
)
def test_a_wrong_value_is_said_with_its_option_before_any_service_is_asked(
    arguments: tuple[str, ...],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = call(arguments, monkeypatch, capsys, WAREHOUSE_URL="clickhouse://127.0.0.1:1/x")
    assert code == 2, said
    assert place in said.strip().splitlines()[-1]


def test_a_file_that_is_there_already_exits_with_1_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("taken")
    code, said = call((*AGENT, "--state", str(tmp_path / "file")), monkeypatch, capsys)
    assert code == 1
    assert said.strip().splitlines()[-1] == f"error: {tmp_path / 'file'}: File exists"
