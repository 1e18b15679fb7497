"""Fixtures: real Kafka and a real registry, one of each for a whole run, and names that are nobody else's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuledger.localstack import Kafka, Registry

STACK_DIRECTORY = Path(__file__).parents[2] / "build" / "stack"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The run's broker. Do not stop it: a test of faults starts its own with `new_kafka`."""
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The run's registry; subjects of one test should carry a name from `unique`."""
    with Registry(tmp_path_factory.mktemp("registry"), STACK_DIRECTORY) as server:
        yield server


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[Kafka]:
    """A broker of this test alone, not started: for kill9, stop and restart."""
    server = Kafka(tmp_path / "kafka", STACK_DIRECTORY)
    yield server
    server.stop()


@pytest.fixture
def new_registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry of this test alone, not started: for kill9, stop and restart."""
    server = Registry(tmp_path / "registry", STACK_DIRECTORY)
    yield server
    server.stop()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`unique("telemetry")` is a topic, group or subject name that no other test and no other call has."""
    test = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node.name)[:60]

    def name(stem: str = "name") -> str:
        return f"{stem}-{test}-{uuid.uuid4().hex[:8]}"

    return name


@pytest.fixture
def topic_prefix(unique: Callable[[str], str]) -> str:
    """Prefix for all topics of one test, ending in a dot."""
    return unique("test") + "."
