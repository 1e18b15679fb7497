"""`gpuledger --help`: every command with a whole line, without loading any of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from gpuledger.cli import COMMANDS, SECTIONS, app
from gpuledger.contract import errors


def test_every_command_has_a_line_that_is_not_cut() -> None:
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80)
    assert shown.exit_code == 0
    lines = shown.output.partition(next(iter(SECTIONS)))[2].splitlines()
    for commands in SECTIONS.values():
        for name, (_, told) in commands.items():
            (line,) = (line for line in lines if line.split()[:1] == [name])
            assert line.endswith(told)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_a_group_has_a_line_that_is_not_cut(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"], terminal_width=80)
    assert shown.exit_code == 0
    assert not [line for line in shown.output.partition("Commands:")[2].splitlines() if line.endswith("...")]


def test_every_command_that_is_named_is_there() -> None:
    group = typer.main.get_command(app)
    for name in COMMANDS:
        assert group.get_command(None, name) is not None  # type: ignore[attr-defined]


def test_the_help_loads_neither_faust_nor_a_client() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from gpuledger.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(sorted({'faust', 'numpy', 'confluent_kafka', 'clickhouse_connect'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_exit_code_is_in_the_help() -> None:
    told = CliRunner().invoke(app, ["--help"]).output.partition("Exit codes:")[2]
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert codes <= {int(word.strip(",.")) for word in told.split() if word.strip(",.").isdigit()}
