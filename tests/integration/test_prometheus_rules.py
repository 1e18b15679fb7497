"""The rules under a real Prometheus: the classic idle query, and the ledger's answer in money."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import ChargeSet
from gpuledger.exporter import Exporter, Limits
from gpuledger.localstack import free_port
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse, connect
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set
from tests.support.children import tied
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.warehouse"]

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"
OWN_POD = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
# utilisation in percent, and the labels that dcgm-exporter itself gives
IDLE = (3, {"UUID": "GPU-0", "namespace": "ml", "pod": "pod-0"})
WORKS = (80, {"UUID": "GPU-1", "namespace": "ml", "pod": "pod-1"})
FREE = (0, {"UUID": "GPU-2"})
HOUR_WINDOWS = HOUR_NS // WINDOW_NS


def line(labels: dict[str, str], value: float, at_s: float | None = None) -> str:
    inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return f"DCGM_FI_DEV_GPU_UTIL{{{inside}}} {value}" + ("" if at_s is None else f" {at_s:.3f}")


def as_scraped(labels: dict[str, str], address: str) -> dict[str, str]:
    """What Prometheus makes of an exporter's labels where the target has a pod of its own."""
    own = {f"exported_{name}" if name in OWN_POD else name: text for name, text in labels.items()}
    return {"job": "dcgm", "instance": address} | OWN_POD | own


@contextlib.contextmanager
def dcgm_exporter() -> Iterator[str]:
    text = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
    text += "".join(line(labels, value) + "\n" for value, labels in (IDLE, WORKS, FREE))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def idle_and_busy(window_start_ns: int) -> ChargeSet:
    """pod-0 holds and does nothing, pod-1 uses what it holds; both cost 0.01 in a window."""
    one = charge_set(window_start_ns, 2)
    for category in ("used", "held_idle", "unallocated", "unobserved"):
        for unit in ("nano", "ns"):
            getattr(one, f"{category}_{unit}")[:] = 0
    one.held_idle_nano[0] = one.used_nano[1] = 10_000_000
    one.held_idle_ns[0] = one.used_ns[1] = WINDOW_NS
    return one


@pytest.fixture
def ledger(warehouse: Warehouse, database_url: str) -> Iterator[str]:
    now = time.time_ns() // WINDOW_NS * WINDOW_NS
    # also the next half hour, so that the last one is whole however long all this takes to start
    sets = [idle_and_busy(now + n * WINDOW_NS) for n in range(-HOUR_WINDOWS, HOUR_WINDOWS // 2)]
    Writer(warehouse, SystemClock()).write(Batch([arrival(one, n) for n, one in enumerate(sets)]))
    registry, stop, port = CollectorRegistry(), threading.Event(), free_port()
    exporter = Exporter(lambda: connect(database_url), SystemClock(), 30.0, Limits())
    registry.register(exporter)
    server, thread = start_http_server(port, "127.0.0.1", registry)
    worker = threading.Thread(target=exporter.run, args=(stop,))
    worker.start()
    yield f"127.0.0.1:{port}"
    stop.set()
    worker.join()
    server.shutdown()
    server.server_close()
    thread.join()


def an_hour_before(directory: Path, address: str) -> None:
    """The last 70 minutes of dcgm-exporter's series, as this Prometheus would have scraped them."""
    now, lines = time.time(), ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for value, labels in (IDLE, WORKS, FREE):
        scraped = as_scraped(labels, address)
        lines += [line(scraped, value, now - ago) for ago in range(70 * 60, 0, -30)]
    text = directory / "history.txt"
    text.write_text("\n".join([*lines, "# EOF", ""]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(directory / "data")]
    subprocess.run(command, check=True, capture_output=True)


def rules_without_patience(directory: Path) -> list[str]:
    """The rules as they are, evaluated each second, and alerts that fire at once."""
    files = []
    for name in ("recording.yml", "alerts.yml"):
        document = yaml.safe_load((RULES / name).read_text())
        for group in document["groups"]:
            group["interval"] = "1s"
            for rule in group["rules"]:
                rule.pop("for", None)
        (directory / name).write_text(yaml.safe_dump(document))
        files.append(name)
    return files


@pytest.fixture
def prometheus(tmp_path: Path, ledger: str) -> Iterator[str]:
    port = free_port()
    with dcgm_exporter() as dcgm:
        an_hour_before(tmp_path, dcgm)
        configuration = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
            "rule_files": rules_without_patience(tmp_path),
            "scrape_configs": [
                {"job_name": "ledger", "honor_labels": True, "static_configs": [{"targets": [ledger]}]},
                {"job_name": "dcgm", "static_configs": [{"targets": [dcgm], "labels": OWN_POD}]},
            ],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        command = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", "--log.level=warn"]
        command += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(tied(command), stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def asked(prometheus: str, query: str) -> list[dict[str, Any]]:
    try:
        address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return list(json.loads(answer.read())["data"]["result"])
    except (OSError, http.client.HTTPException):
        return []


def the_only(prometheus: str, query: str) -> tuple[dict[str, str], float]:
    """Labels and value of the one series, once there is exactly one: every group of rules has its own moment,
    and a scrape that was too slow leaves a hole."""
    found: list[dict[str, Any]] = []

    def one() -> bool:
        found[:] = asked(prometheus, query)
        return len(found) == 1

    until(one, PATIENCE_S)
    return found[0]["metric"], float(found[0]["value"][1])


def test_the_idle_query_and_the_ledger_name_the_same_pod_and_the_ledger_its_price(prometheus: str) -> None:
    def firing(name: str) -> dict[str, str]:
        # one alone: before the first scrape nothing says which pod is dcgm-exporter's own
        return the_only(prometheus, f'ALERTS{{alertname="{name}",alertstate="firing"}}')[0]

    by_dcgm, by_ledger = firing("GpuRequestedIdle"), firing("GpuMoneyHeldIdle")
    assert (by_dcgm["namespace"], by_dcgm["pod"], by_dcgm["UUID"]) == ("ml", "pod-0", "GPU-0")
    assert (by_ledger["pod"], by_ledger["currency"]) == ("pod-0", "USD")
    _, active = the_only(prometheus, 'gpuledger:requested_gpu_active_percent:avg1h{pod="pod-0"}')
    assert active == pytest.approx(3)
    _, money = the_only(prometheus, 'gpuledger_pod_held_idle_per_hour{pod="pod-0"}')
    assert money == pytest.approx(3.6)  # 0.01 in each of the hour's 360 windows
    _, share = the_only(prometheus, 'gpuledger:held_idle_ratio:team{team="team-a"}')
    assert share == pytest.approx(1)
