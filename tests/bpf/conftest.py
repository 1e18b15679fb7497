"""Fixtures of the tests of the probes: they need root, both loaders and a kernel with uprobes, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from gpuledger.agent.probes import LoaderKind, ProbeSource, finder
from gpuledger.agent.probes.compile import compile_object
from gpuledger.agent.probes.mappings import MappingWatch
from tests.bpf.workbench import LOADERS, ROOMY_PAGES, Bench, Pod, build, pod


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """What is tested is the source as it is now."""
    compile_object()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session", params=LOADERS)
def shared_source(bench: Bench, request: pytest.FixtureRequest, _compiled: None) -> Iterator[ProbeSource]:
    """It hears of mappings however many programs of other tests begin at once; what a full ring leads to is
    for tests of its own."""
    source = ProbeSource(loader=LoaderKind(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finder, "MappingWatch", partial(MappingWatch, ring_pages=ROOMY_PAGES))
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
