"""The agent's /metrics, which answers whoever asks and says nothing of it."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from gpuledger.agent.metrics_server import serve_metrics
from gpuledger.agent.rounds import STUCK_S, Rounds
from gpuledger.contract.clock import NS_PER_S, ManualClock
from gpuledger.localstack import free_port
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    Counter("asked", "What is counted", registry=found).inc(23)
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_it_answers_at_its_address_again_and_again(
    registry: CollectorRegistry, address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    try:
        serve_metrics(port, address, registry, str)
    except OSError:
        if address != "::1":
            raise
        pytest.skip("this machine has no IPv6")
    host = f"[{address}]" if ":" in address else address
    for _ in range(3):
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=PATIENCE_S) as answer:
            assert "asked_total 23.0" in answer.read().decode().splitlines()
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_said_at_once(registry: CollectorRegistry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve_metrics(taken.getsockname()[1], "127.0.0.1", registry, str)


def test_who_supervises_it_is_told_when_its_loop_stands_still_and_when_it_goes_on(
    registry: CollectorRegistry,
) -> None:
    clock, port = ManualClock(), free_port()
    rounds = Rounds(clock)
    serve_metrics(port, "127.0.0.1", registry, rounds.problem)

    def alive() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/alive", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    clock.advance(1000 * NS_PER_S)
    assert alive() == (200, "ok\n"), "it has not begun: it may wait for the driver"
    rounds.come()
    clock.advance(int(STUCK_S) * NS_PER_S)
    assert alive() == (200, "ok\n")
    clock.advance(NS_PER_S)
    assert alive() == (503, "the agent's loop has not come round for 301 s\n")
    rounds.come()
    assert alive() == (200, "ok\n")
