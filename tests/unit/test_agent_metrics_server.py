"""The agent's /metrics, which answers whoever asks and says nothing of it."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from gpuledger.agent.metrics_server import serve_metrics
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
        serve_metrics(port, address, registry)
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
        serve_metrics(taken.getsockname()[1], "127.0.0.1", registry)
