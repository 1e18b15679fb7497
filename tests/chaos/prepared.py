"""What a new stack is given before anybody works on it: topics, schemas, tables, prices, teams, budgets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos import budgets
from tests.chaos.settings import PARTITIONS

COMMAND_S = 240
DEMO = Path(__file__).parents[2] / "deploy" / "demo"


def prepare(directory: Path, env: Mapping[str, str]) -> None:
    """As people do it, by commands. Raises CalledProcessError, TimeoutExpired."""
    watched = directory / "budgets.yaml"
    watched.write_text(budgets.document())
    first = (
        ["topics", "apply", "--partitions", str(PARTITIONS), "--replication", "1"],
        ["schemas", "register"],
        ["warehouse", "migrate"],
    )
    with ThreadPoolExecutor(len(first)) as pool:
        list(pool.map(lambda arguments: _run(arguments, env), first))
    documents = [DEMO / "prices.yaml", DEMO / "teams.yaml", watched]
    _run(["config", "apply", "--yes", *map(str, documents)], env)


def _run(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=COMMAND_S,
    )
