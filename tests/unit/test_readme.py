"""What README and docs tell people to type is there, with the options that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gpuledger.cli import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").glob("*.md"))]
CALL = re.compile(r"(?:\.venv/bin/)?gpuledger (?!<|\.\.\.)(.+)")
PLACEHOLDER = re.compile(r"\[[^\]]*\]|\.\.\.|<|\bSELECT \.\.\.")


def blocks(path: Path) -> Iterator[str]:
    """The text of every block of code, with continued lines joined."""
    for fenced, indented in re.findall(r"^```\n(.*?)^```|((?:^    .+\n)+)", path.read_text(), re.S | re.M):
        yield (fenced or indented).replace("\\\n", " ")


def calls(path: Path) -> list[str]:
    lines = [line.strip() for block in blocks(path) for line in block.splitlines()]
    found = [match[1] for line in lines if (match := CALL.match(line))]
    return [call for call in found if not PLACEHOLDER.search(call)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_there_with_its_options(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_CLUSTER", "c")
    monkeypatch.setenv("GPULEDGER_NODE", "n")
    monkeypatch.chdir(ROOT)
    for call in calls(path):
        words = shlex.split(call, comments=True)
        command: Any = typer.main.get_command(app)
        while hasattr(command, "get_command") and words and not words[0].startswith("-"):
            name = words.pop(0)
            command = command.get_command(None, name)
            assert command is not None, f"{path.name}: gpuledger {call}: there is no {name}"
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        known |= {"--help", "-h"}
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert options <= known, f"{path.name}: gpuledger {call}: {sorted(options - known)}"


def test_the_readme_names_commands() -> None:
    assert len(calls(README)) >= 7


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    for path in DOCUMENTS:
        named = set(re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z-]+)", path.read_text()))
        named |= {m for block in blocks(path) for m in re.findall(r"^make ([a-z-]+)", block, re.M)}
        assert named <= targets, path.name


def test_every_link_leads_somewhere() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_every_folder_that_the_readme_names_is_there() -> None:
    for name in re.findall(
        r"`((?:services|schemas|bpf|deploy|tests|benchmarks|docs)/[\w/.-]*)`", README.read_text()
    ):
        assert (ROOT / name).exists(), name
