"""The embedded server as a process of its own, for the demo and the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuledger.localstack import Server, free_port, port_open
from gpuledger.warehouse.embedded.engine import DATABASE


class EmbeddedWarehouse(Server):
    """Started, awaited, stopped, killed and started again on the same port and data; see Server."""

    name = "warehouse"

    def __init__(self, data_dir: Path, *options: str) -> None:
        super().__init__(data_dir)
        self._options = options
        self.port = 0

    @property
    def url(self) -> str:
        """URL of the database of the ledger."""
        return f"clickhouse://127.0.0.1:{self.port}/{DATABASE}"

    def choose_ports(self) -> None:
        """See Server."""
        self.port = free_port()

    def command(self) -> list[str]:
        """See Server."""
        path = str(self.data_dir / "data")
        serve = ["-m", "gpuledger.warehouse", "serve", "--path", path, "--port", str(self.port)]
        return [sys.executable, *serve, *self._options]

    def is_ready(self) -> bool:
        """See Server."""
        return port_open(self.port)

    def after_start(self) -> None:
        """See Server."""
