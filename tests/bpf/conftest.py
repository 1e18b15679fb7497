"""Fixtures of the tests of the probes: they need root, bcc and a kernel with uprobes, and say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuledger.agent.probes import BccSource
from tests.bpf.workbench import Bench, Pod, build, pod


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session")
def shared_source(bench: Bench) -> Iterator[BccSource]:
    source = BccSource()
    source.start()
    source.preattach(bench.library)
    yield source
    source.close()


@pytest.fixture
def source(shared_source: BccSource) -> Iterator[BccSource]:
    """Probes on the library of the bench, drained, and proved to have lost nothing in the test."""
    shared_source.drain()
    before = shared_source.losses()
    yield shared_source
    after = shared_source.losses()
    assert after.events == before.events


@pytest.fixture
def pods() -> Iterator[list[Pod]]:
    with pod() as one, pod() as other:
        yield [one, other]
