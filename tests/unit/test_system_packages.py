"""What a fresh machine is given before anything runs: every program that is started, or a clear word."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "dev" / "system-packages.sh"
CODE = sorted(path for name in ("services", "tests", "benchmarks") for path in (ROOT / name).rglob("*.py"))
COMES_WITH = {"binutils": "gcc"}  # package: the listed one that depends on it
ON_EVERY_MACHINE = {"required", "important"}  # Debian's priorities of what its installer always has
NOBODY = 65533  # a user that may install nothing
NEEDED = ("bash", "dpkg-query", "grep", "id", "uname", "env")


def packages() -> set[str]:
    """What the script installs."""
    text = SCRIPT.read_text()
    return set(re.findall(r"\[[\w.-]+\]=([\w.+-]+)", text)) | {
        name for line in re.findall(r"PACKAGES\+?=\(([^)]*)\)", text) for name in line.split()
    }


def programs(path: Path) -> Iterator[str]:
    """First words of the lists that are given to subprocess, or are called a command."""
    for node in ast.walk(ast.parse(path.read_text())):
        place: ast.AST | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess.") and node.args:
            place = node.args[0]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("command", "start"):
            place = node.value
        if place is not None:
            for one in ast.walk(place):
                if isinstance(one, ast.List) and one.elts and isinstance(one.elts[0], ast.Constant):
                    yield str(one.elts[0].value)


def package_of(program: str) -> str:
    """Debian's package of a program, without the version in its name; empty where none has it."""
    found = Path(shutil.which(program) or program)
    for place in (found, found.resolve(), Path("/bin", program), Path("/sbin", program)):
        said = subprocess.run(["dpkg", "-S", str(place)], capture_output=True, text=True, check=False)
        if said.returncode == 0:
            return re.sub(r"-\d+$", "", said.stdout.split(":")[0])
    return ""


def always_there(package: str) -> bool:
    command = ["dpkg-query", "-W", "-f", "${Priority}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout in ON_EVERY_MACHINE


def test_every_program_that_is_started_comes_with_a_package_that_is_installed() -> None:
    started = {word for path in CODE for word in programs(path) if re.fullmatch(r"[a-z][\w.-]*", word)}
    assert {"curl", "clang", "promtool", "setpriv"} <= started
    listed = packages()
    lacking = {
        program
        for program in started
        if shutil.which(program)  # a word that is none may begin a list as well
        and (package := package_of(program)) not in listed
        and COMES_WITH.get(package) not in listed
        and not always_there(package)
    }
    assert not lacking


def run_bare(place: Path, user: int) -> subprocess.CompletedProcess[str]:
    """The script as that user, where nothing is there but what it is itself made of."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found
        (place / name).symlink_to(found)
    change = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    command = [*(change if os.geteuid() == 0 else []), "/usr/bin/env", "-i", f"PATH={place}", "bash"]
    return subprocess.run(command, input=SCRIPT.read_text(), capture_output=True, text=True, check=False)


def test_whoever_may_install_nothing_is_told_exactly_what_is_missing() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        done = run_bare(Path(name), NOBODY)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    told = {line.strip() for line in lines if line.startswith("  ")}
    commands = set(re.findall(r"\[[\w.-]+\]=([\w.+-]+)", SCRIPT.read_text()))
    assert commands | {"python3-venv"} <= told <= packages() | {"python3-venv"}
    assert "apt-get install" in lines[-1]
    assert all(name in lines[-1].split() or f"{name})," in lines[-1].split() for name in told)
