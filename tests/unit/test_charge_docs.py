"""docs/charge.md: each of its commands runs, and prints what stands there."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from gpuledger.charge.files import read_bytes
from gpuledger.charge.recorded import read_recorded, windows_of
from gpuledger.contract.records import EventBatch
from tests.support.bills import AGENT, EXAMPLES, PRICES, app, bill

DOCS = EXAMPLES.parent
FENCED = re.compile(r"^```(\S*) ?(\d*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "...\n"
MEASURED_TO = 0.02  # of device time: what the benchmarks say of this kind of evidence, see docs/accuracy.md


class Shown(NamedTuple):
    """A command and a text of its output, as wide as a terminal of ``width``; 0: a pipe."""

    command: str
    width: int
    text: str


def commands() -> Iterator[Shown]:
    command = ""
    for kind, width, text in FENCED.findall((DOCS / "charge.md").read_text()):
        if kind == "text":
            yield Shown(command, int(width or 0), text)
        else:
            command = text.replace("\\\n", " ").splitlines()[-1]
            yield Shown(command, 0, LEFT_OUT)


def run(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> str:
    words = shlex.split(shown.command)
    assert words[:2] == ["gpuledger", "charge"]
    if shown.width:
        monkeypatch.setenv("COLUMNS", str(shown.width))
        monkeypatch.setenv("FORCE_COLOR", "1")
    result = CliRunner().invoke(app, words[2:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    return "\n".join(text.rstrip() for text in plain.splitlines()) + "\n"


@pytest.mark.parametrize("shown", list(commands()), ids=lambda shown: f"{shown.command[:60]} {shown.width}")
def test_a_command_prints_what_the_page_shows(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of three dots stand for what is left out."""
    for name in ("metrics.txt", "prices.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "docs").symlink_to(DOCS)
    monkeypatch.chdir(tmp_path)
    output, at = run(shown, monkeypatch), 0
    for part in shown.text.split(LEFT_OUT):
        assert part in output[at:]
        at = output.index(part, at) + len(part)
    if LEFT_OUT not in shown.text and not shown.width:
        assert shown.text == output


def test_every_example_is_used_on_the_page() -> None:
    text = (DOCS / "charge.md").read_text()
    of_this_page = [path for path in EXAMPLES.rglob("*.*") if path.parent.name != "prices"]
    assert all(path.name in text for path in of_this_page), of_this_page


def test_every_option_is_on_the_page() -> None:
    options = set(re.findall(r"--[a-z-]+", CliRunner().invoke(app, ["--help"], terminal_width=200).output))
    shell_only = {"--help", "--install-completion", "--show-completion"}
    assert options - shell_only <= set(re.findall(r"--[a-z-]+", (DOCS / "charge.md").read_text()))


def test_the_agents_example_is_two_windows_of_ten_seconds() -> None:
    path = EXAMPLES / "agent" / "EventBatch.avro"
    found = windows_of(read_recorded(read_bytes(path), path, EventBatch))
    assert [window.window_length_ns for window in found] == [10_000_000_000] * 2


def test_the_agents_example_is_charged_for_what_its_pods_really_did() -> None:
    """Every pod's used time against truth.csv, over both windows."""
    truth: dict[tuple[str, str], int] = {}
    with (EXAMPLES / "agent" / "truth.csv").open() as file:
        for row in csv.DictReader(file):
            key = row["device"], row["consumer"]
            truth[key] = truth.get(key, 0) + int(row["busy_ns"])
    answer = bill(*AGENT, *PRICES)
    charged = {(one["device"], one["consumer"]): one["used_ns"] for one in answer["lines"] if one["consumer"]}
    assert charged.keys() == truth.keys()
    assert any(truth.values())
    span_ns = answer["end_ns"] - answer["start_ns"]
    assert all(abs(charged[key] - truth[key]) <= MEASURED_TO * span_ns for key in truth)


def test_the_teams_of_the_example_are_a_document_of_their_own() -> None:
    document = yaml.safe_load((EXAMPLES / "teams.yaml").read_text())
    assert (document["kind"], document["default_team"]) == ("teams", "unclaimed")
