"""One of gpuledger's own processes in a chaos run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuledger.localstack import Server

EPOCH_BEGINS = '"epoch_begins"'  # what an agent logs once it works


def epochs_in(log: Path) -> int:
    """How many lives an agent has begun, by its log."""
    return log.read_text(errors="replace").count(EPOCH_BEGINS) if log.exists() else 0


class Ended(NamedTuple):
    """A process of ours that ended without being asked to."""

    name: str
    status: int
    said: str


class Service(Server):
    """One of gpuledger's own commands; it is ready as soon as it runs."""

    def __init__(
        self,
        name: str,
        directory: Path,
        arguments: Sequence[str],
        env: Mapping[str, str],
        module: str = "gpuledger",
    ) -> None:
        super().__init__(directory / name)
        self.name = name
        self.log_path = directory / f"{name}.log"
        self.arguments = list(arguments)
        self.env = dict(env)
        self._module = module

    def like(self, name: str, arguments: Sequence[str]) -> Service:
        """Another process of the same kind."""
        return Service(name, self.log_path.parent, arguments, self.env, self._module)

    def choose_ports(self) -> None:
        """None."""

    def command(self) -> list[str]:
        """Through env, which becomes the command: the process id stays the same."""
        settings = [f"{name}={value}" for name, value in self.env.items()]
        return ["/usr/bin/env", *settings, sys.executable, "-m", self._module, *self.arguments]

    def is_ready(self) -> bool:
        """See Server."""
        return True

    def after_start(self) -> None:
        """See Server."""

    def ended(self) -> Ended | None:
        """What it said last, where it ended by itself."""
        if self._process is None or self._process.poll() is None:
            return None
        return Ended(self.name, self._process.returncode, self.said())

    @property
    def status(self) -> int | None:
        """The exit status of one that has ended; None where it runs, or never did."""
        return self._process.poll() if self._process is not None else None

    def said(self) -> str:
        """The most telling line of its log."""
        lines = [line for line in self.log_path.read_text(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Fenced" in line] or lines
        return telling[-1][-300:] if telling else ""
