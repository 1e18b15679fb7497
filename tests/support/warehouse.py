"""Fixtures: the embedded server, one for a whole run, and a database that no other test has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWarehouse]:
    """The run's server. Do not stop it: a test of faults starts its own with `new_embedded`."""
    with EmbeddedWarehouse(tmp_path_factory.mktemp("warehouse")) as server:
        yield server


@pytest.fixture
def new_embedded(tmp_path: Path) -> Iterator[EmbeddedWarehouse]:
    """A server of this test alone, not started: for kill9, stop and restart."""
    server = EmbeddedWarehouse(tmp_path / "warehouse")
    yield server
    server.stop()


@pytest.fixture
def database_url(embedded: EmbeddedWarehouse) -> str:
    """URL of a database that does not exist yet and that is this test's alone."""
    return embedded.url.rpartition("/")[0] + f"/test_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def warehouse(database_url: str) -> Iterator[Warehouse]:
    """A connection to a database of this test with all tables."""
    connection = connect(database_url, create_database=True)
    migrate(connection)
    yield connection
    connection.command(f"DROP DATABASE `{connection.url.database}`")
    connection.close()
