"""Fixtures of the tests of the probes: they need root, both loaders and a kernel with uprobes, and say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuledger.agent.probes import LoaderKind, ProbeSource
from gpuledger.agent.probes.compile import compile_object
from tests.bpf.workbench import LOADERS, Bench, Pod, build, pod


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """What is tested is the source as it is now."""
    compile_object()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session", params=LOADERS)
def shared_source(bench: Bench, request: pytest.FixtureRequest, _compiled: None) -> Iterator[ProbeSource]:
    source = ProbeSource(loader=LoaderKind(request.param))
    source.start()
    source.preattach(bench.library)
    yield source
    source.close()


@pytest.fixture
def source(shared_source: ProbeSource) -> Iterator[ProbeSource]:
    """Probes on the library of the bench, drained, and proved to have lost nothing in the test. Each call is
    a record, however fast they come, unless a test says otherwise."""
    shared_source.set_tally_rate(None)
    shared_source.drain()
    before = shared_source.losses()
    yield shared_source
    after = shared_source.losses()
    assert after.events == before.events


@pytest.fixture
def pods() -> Iterator[list[Pod]]:
    with pod() as one, pod() as other:
        yield [one, other]
