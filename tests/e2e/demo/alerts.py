"""Breaches as they are told on gpu.breaches, and as Alertmanager has received them."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue

from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.records import Breach, decode
from gpuledger.contract.windows import NS_PER_S
from gpuledger.contract.wire import unframe
from tests.e2e.demo.services import DemoError

POLL_S = 0.5  # no figure depends on it: the broker and Alertmanager say when they had it
ALL_THERE_S = 30  # the budgets application and notify need a second or two each
PPM_OF_PERCENT = 10_000
Line = tuple[str, int]
"""A line of a budget: the budget's id, and the threshold in millionths."""


@dataclass(frozen=True)
class Told:
    """A breach that fired. ``latency_s``: from the end of the window in which the line was crossed to its
    message in Kafka, by the broker's clock; 0 where the node's end closed that window before its own."""

    breach: Breach
    latency_s: float

    @property
    def line(self) -> Line:
        """The line that was crossed."""
        return self.breach.budget_id, self.breach.threshold_ppm

    @property
    def words(self) -> str:
        """``Vision, any hour: 50 % of 0.12 USD``."""
        b = self.breach
        amount = f"{(b.amount_nano or 0) / NS_PER_S:.2f} {b.currency}"
        return f"{b.budget_name}: {b.threshold_ppm / PPM_OF_PERCENT:g} % of {amount}"


class AlertWatch(threading.Thread):
    """Follows gpu.breaches, and asks Alertmanager for those that it does not have yet."""

    def __init__(self, kafka_bootstrap: str, alertmanager_url: str) -> None:
        super().__init__(daemon=True)
        self._bus = BusSettings.load(kafka_bootstrap=kafka_bootstrap)
        self._url = f"{alertmanager_url}/api/v2/alerts?filter=source%3D%22gpuledger%22"
        self._ended = threading.Event()
        self._news: SimpleQueue[str] = SimpleQueue()
        self._next = 0
        self.told: list[Told] = []
        self.received: dict[str, float] = {}  # id of a breach -> seconds from its message to the receipt

    def run(self) -> None:
        """Poll until stopped; who is away is asked again."""
        with PartitionReader(self._bus, "demo-breaches") as reader:
            while not self._ended.wait(POLL_S):
                try:
                    self._read(reader)
                    self._ask()
                except (Unavailable, OSError):
                    continue

    def news(self) -> Iterator[str]:
        """What happened since this was last asked, a line each."""
        while True:
            try:
                yield self._news.get_nowait()
            except Empty:
                return

    @property
    def latencies(self) -> list[float]:
        """Of the breaches told, in seconds, ascending."""
        return sorted(one.latency_s for one in self.told)

    def wait_for(self, lines: set[Line]) -> None:
        """Until every one of the lines was told, and Alertmanager has all that was. Raises DemoError."""
        deadline = time.monotonic() + ALL_THERE_S
        while not (lines <= {one.line for one in self.told} and len(self.received) >= len(self._ids())):
            if time.monotonic() > deadline:
                raise DemoError(
                    f"within {ALL_THERE_S} s {len(self.told)} of {len(lines)} breaches were told, and "
                    f"Alertmanager has {len(self.received)} of them"
                )
            time.sleep(POLL_S / 5)

    def stop(self) -> None:
        """End the polling."""
        self._ended.set()
        self.join()

    def _ids(self) -> set[str]:
        return {one.breach.id for one in self.told}

    def _read(self, reader: PartitionReader) -> None:
        for record in reader.read_to_end(topics.BREACHES, 0, self._next):
            self._next = record.offset + 1
            breach = decode(Breach, unframe(record.value or b"")[1])
            if breach.state != "firing" or breach.previous_state == "firing":
                continue
            latency_s = max(0.0, record.timestamp_ms / 1e3 - breach.since_ns / NS_PER_S)
            self.told.append(Told(breach, latency_s))
            self._news.put(f"[bold red]BREACH[/]   {breach.message}")

    def _ask(self) -> None:
        waited = {one.breach.id: one for one in self.told if one.breach.id not in self.received}
        if not waited:
            return
        with urllib.request.urlopen(self._url, timeout=5) as answer:
            alerts = json.load(answer)
        for alert in alerts:
            one = waited.get(alert["labels"]["breach_id"])
            if one is None:
                continue
            had_s = datetime.fromisoformat(alert["updatedAt"]).timestamp()
            told_s = one.breach.since_ns / NS_PER_S + one.latency_s
            self.received[one.breach.id] = max(0.0, had_s - told_s)
            labels = alert["labels"]
            self._news.put(
                f"[bold]RECEIPT[/]  Alertmanager has it: {labels['alertname']}, {labels['severity']}, "
                f"{self.received[one.breach.id]:.1f} s later"
            )
