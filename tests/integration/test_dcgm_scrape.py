"""The sampler against a real HTTP server that behaves as exporters do, well and badly."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.samplers import dcgm_exporter, exporter_http
from gpuledger.agent.samplers.dcgm_exporter import DcgmExporterSampler
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.identity import Epoch
from gpuledger.contract.records import Device
from tests.support.agent import S, uuid
from tests.support.exporter import Exporter, exporter
from tests.support.waiting import PATIENCE_S, until

GPU = uuid(0)
UTIL = "DCGM_FI_DEV_GPU_UTIL"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, what answers has answered in time."""
    monkeypatch.setattr(dcgm_exporter, "WAIT_S", PATIENCE_S)
    monkeypatch.setattr(exporter_http, "CALL_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def server() -> Iterator[Exporter]:
    with exporter() as started:
        started.say({UTIL: 37}, f'gpu="0",UUID="{GPU}"')
        yield started


def sampler_of(url: str, max_bytes: int = 1 << 20) -> tuple[DcgmExporterSampler, ManualClock]:
    clock = ManualClock(unix_ns=1000 * S, boot_ns=1000 * S)
    sampler = DcgmExporterSampler(
        url,
        [Device(uuid=GPU, index=0)],
        clock,
        AgentTime(Epoch("b", 1000 * S), 0),
        10 * S,
        max_bytes,
    )
    return sampler, clock


def test_it_scrapes_at_the_end_of_each_period_and_each_value_speaks_for_the_time_since_the_last(
    server: Exporter,
) -> None:
    sampler, clock = sampler_of(server.url)
    rounds = []
    for _ in range(20):
        clock.advance(S)
        rounds.append(sampler.sample())
    sampler.close()
    assert server.scrapes == 2
    taken = [(s.start_ns, s.duration_ns, s.value) for r in rounds for s in r.samples]
    assert taken == [(1000 * S, 10 * S, 0.37), (1010 * S, 10 * S, 0.37)]
    assert [r.through_ns for r in rounds] == [(1001 + n) * S for n in range(20)]


def test_after_a_pause_a_value_does_not_speak_for_all_of_it(server: Exporter) -> None:
    """The machine slept: what the exporter shows is the mean of its own last interval."""
    sampler, clock = sampler_of(server.url)
    clock.advance(600 * S)
    (sample,) = sampler.sample().samples
    sampler.close()
    assert (sample.start_ns, sample.duration_ns) == (1580 * S, 20 * S)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [("503", "http_503"), ("404", "http_404"), ("close", "unreachable"), ("cut", "cut_short")],
)
def test_an_exporter_that_fails_is_a_gap_with_its_reason_until_it_is_well_again(
    server: Exporter, behaviour: str, reason: str
) -> None:
    sampler, clock = sampler_of(server.url)
    server.behaviour = behaviour
    clock.advance(10 * S)
    failed = sampler.sample()
    server.behaviour = "ok"
    clock.advance(10 * S)
    well = sampler.sample()
    sampler.close()
    assert (failed.samples, failed.through_ns) == ([], 1010 * S)
    assert failed.gaps == [("", None, SampleSource.DCGM_EXPORTER, 1000 * S, 10 * S, reason)]
    assert [(s.start_ns, s.field) for s in well.samples] == [(1010 * S, Field.GPU_UTILIZATION)]


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
def test_an_exporter_that_hangs_is_left_alone_after_half_a_second_and_asked_again_later(
    server: Exporter, behaviour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, clock = sampler_of(server.url)
    server.behaviour = behaviour
    clock.advance(10 * S)
    with monkeypatch.context() as as_it_is:
        as_it_is.setattr(dcgm_exporter, "WAIT_S", 0.5)
        hung = sampler.sample()
    assert [(gap.reason, gap.duration_ns) for gap in hung.gaps] == [("timeout", 10 * S)]
    server.behaviour = "ok"
    clock.advance(10 * S)
    well = sampler.sample()
    sampler.close()
    assert [(s.start_ns, s.value) for s in well.samples] == [(1010 * S, 0.37)]


def test_an_exporter_that_is_not_there_is_a_gap(server: Exporter) -> None:
    with exporter() as gone:
        url = gone.url
    sampler, clock = sampler_of(url)
    clock.advance(10 * S)
    assert [gap.reason for gap in sampler.sample().gaps] == ["unreachable"]
    sampler.close()


def test_a_text_without_end_is_not_read_to_its_end(server: Exporter) -> None:
    server.text += "# filler\n" * 10_000
    sampler, clock = sampler_of(server.url, max_bytes=50_000)
    clock.advance(10 * S)
    assert [gap.reason for gap in sampler.sample().gaps] == ["too_large"]
    sampler.close()


def test_nothing_is_left_running_when_it_is_closed(server: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm_exporter, "WAIT_S", 0.5)
    sampler, clock = sampler_of(server.url)
    server.behaviour = "hang"
    clock.advance(10 * S)
    sampler.sample()
    sampler.close()
    until(lambda: not [t for t in threading.enumerate() if t.name == "exporter-scrape"])


@pytest.mark.parametrize(
    "url", ["", "metrics", "ftp://h/metrics", "http://", "http://h:port/", "http://h:0/"]
)
def test_what_is_no_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ConfigError, match="http"):
        sampler_of(url)
