"""The demo's node: pods on emulated GPUs, the agent beside them, and the questions at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from gpuledger.agent.probes import available
from gpuledger.agent.simulated import SimulatedNode
from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.money import cost, nano_from_decimal
from gpuledger.contract.records import NodeLifetime, decode
from gpuledger.contract.wire import unframe
from tests.e2e.demo import scene, truth
from tests.e2e.demo.alerts import AlertWatch
from tests.e2e.demo.closing import Closing
from tests.e2e.demo.report import COUNTS, show_devices, show_teams, show_truth
from tests.e2e.demo.services import READY_S, DemoError, Service, Stack
from tests.e2e.demo.warehouse import LatencyWatch, ask, percentile
from tests.emulator import Emulator
from tests.emulator.control import LIBCUDA

PRICE_NANO_PER_HOUR = nano_from_decimal("12.29")  # deploy/demo/prices.yaml says the same; checked below
GPUS = 3
WINDOW_NS = 10 * 10**9
CLOSED_WITHIN_S = 60  # the goodbye closes the last window at once; a slow machine needs some seconds
SHARE_ERROR_MAX_POINTS = 5.0
LATENCY_P99_MAX_S = 5.0  # of a row, and of a breach


class Demo:
    """One run. `start`, `work`, `finish`, `report` in this order; `stop` always."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.reason = available()
        self.scene = scene.works()
        self.emulator = Emulator(scene.devices())
        self.agent: Service | None = None
        self.latencies: list[float] = []
        self.alerts: AlertWatch | None = None
        self.closing: Closing | None = None
        self._watch: LatencyWatch | None = None
        self._unix_minus_boot_ns = 0

    @property
    def source(self) -> str:
        """Where the events come from: ebpf or simulated."""
        return "simulated" if self.reason else "ebpf"

    @property
    def first_line(self) -> str:
        """What a person reads first."""
        if self.reason:
            return f"eBPF is not possible here ({self.reason}): the node of this demo is simulated."
        return "Real eBPF probes on three emulated GPUs, real Kafka and registry, ClickHouse's own engine."

    def start(self) -> None:
        """Start devices, pods and the agent, and wait until it is at work. Raises DemoError."""
        arguments = ["agent", "run", "--cluster", scene.CLUSTER, "--node", scene.NODE]
        arguments += ["--state", str(self.stack.directory / "agent"), "--ends-node"]
        arguments += ["--source", self.source]
        env: dict[str, str] = {}
        if not self.reason:
            self.emulator.start()
            holders = self.stack.directory / "holders.yaml"
            scene.write_holders(holders, self.scene, self.emulator.uuids)
            scene.make_cgroups(self.scene)
            env = {name: self.emulator.env[name] for name in ("LD_LIBRARY_PATH", "GPUEMU_SHM")}
            arguments += ["--holders", str(holders), "--samplers", "nvml", "--preattach", str(LIBCUDA)]
        self.agent = self.stack.add("agent", arguments, env)
        if not self.reason:
            scene.start(self.scene, self.emulator)
        self._unix_minus_boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._watch = LatencyWatch(self.stack.warehouse_url)
        self._watch.start()
        self._await_launch()
        self.alerts = AlertWatch(self._bus().kafka_bootstrap, self.stack.alertmanager_url)
        self.alerts.start()

    def work(self, seconds: int) -> Iterator[tuple[float, str]]:
        """Let the pods work until at least one whole window more than `seconds` hold has been charged."""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            self.stack.check()
            yield elapsed, self._note()
            time.sleep(1)
        yield seconds, self._note()

    def news(self) -> list[str]:
        """Breaches and receipts since this was last asked, a line each."""
        return list(self.alerts.news()) if self.alerts is not None else []

    def finish(self, width: int) -> None:
        """End the node; wait until its last window is in the warehouse, and until every line of a budget that
        was crossed by then has been told and received. Raises DemoError."""
        assert self.agent is not None
        assert self.alerts is not None
        if self.agent.stop():
            self.agent.check()
        self.stack.services.remove(self.agent)
        launched, ended = self.lifetime()
        expected = len(range(launched - launched % WINDOW_NS, ended, WINDOW_NS))
        deadline = time.monotonic() + CLOSED_WITHIN_S
        while True:
            self.stack.check()
            rows = ask(self.stack.warehouse_url, "SELECT uniqExact(window_start) AS n FROM charges")
            if int(rows[0]["n"]) >= expected:
                break
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{rows[0]['n']} of {expected} windows were charged within {CLOSED_WITHIN_S} s"
                )
            time.sleep(0.2)
        if self._watch is not None:
            self.latencies = self._watch.stop()
            self._watch = None
        self.closing = Closing(self.stack, launched, ended, width)
        self.alerts.wait_for(self.closing.crossed)
        self.alerts.stop()

    def lifetime(self) -> tuple[int, int]:
        """[launched, ended) of the node as gpu.nodes states it, ns since the Unix epoch. Raises DemoError."""
        found = self._stated()
        if found is None or found.launched_ns is None or found.ended_ns is None:
            raise DemoError(f"gpu.nodes does not state the node's lifetime: {found}")
        return found.launched_ns, found.ended_ns

    def _stated(self) -> NodeLifetime | None:
        """What gpu.nodes says last of the node."""
        found: NodeLifetime | None = None
        with PartitionReader(self._bus(), "demo-nodes") as reader:
            for partition in range(reader.partitions(topics.NODES)):
                for record in reader.read_to_end(topics.NODES, partition):
                    found = decode(NodeLifetime, unframe(record.value or b"")[1])
        return found

    def _await_launch(self) -> None:
        """Until the agent has said that its node began: from then on every second is somebody's."""
        deadline = time.monotonic() + READY_S
        while self._stated() is None:
            self.stack.check()
            if time.monotonic() > deadline:
                raise DemoError(f"the agent has not stated its node within {READY_S} s ({self.stack.logs})")
            time.sleep(0.2)

    def report(self, console: Console) -> dict[str, Any]:
        """Ask the ledger, hold it against the truth, print both; returns the figures."""
        assert self.alerts is not None
        assert self.closing is not None
        url = self.stack.warehouse_url
        show_devices(console, url)
        sums = ask(url, COUNTS)[0]
        all_rows = ask(url, "SELECT sum(total) AS total, sum(total_ns) AS ns, count() AS rows FROM charges")[
            0
        ]
        launched, ended = self.lifetime()
        priced = GPUS * cost(PRICE_NANO_PER_HOUR, launched, ended)
        report: dict[str, Any] = {
            "source": self.source,
            "node_life_s": round((ended - launched) / 1e9, 3),
            "windows": int(sums["windows"]),
            "charges": int(all_rows["rows"]),
            "total": str(all_rows["total"]),
            "conservation_error_nano": nano_from_decimal(all_rows["total"] or "0") - priced,
            "conservation_error_ns": int(all_rows["ns"]) - GPUS * (ended - launched),
            "lost_events": int(sums["lost_events"]),
            "row_latency_p50_s": _rounded(percentile(self.latencies, 0.50)),
            "row_latency_p99_s": _rounded(percentile(self.latencies, 0.99)),
            "breaches": len(self.alerts.told),
            "breach_latency_p99_s": _rounded(percentile(self.alerts.latencies, 0.99)),
            "alertmanager_received": len(self.alerts.received),
        }
        windows = truth.telemetry_windows(self._bus().kafka_bootstrap, with_samples=False)
        report["events"] = sum(int(batch.count.sum()) for window in windows for batch in window.events)
        report |= self._shares(console, windows)
        show_teams(console, url)
        self.closing.show(console, self.alerts)
        return report

    def _shares(self, console: Console, windows: list[Any]) -> dict[str, float]:
        complete = {
            int(row["ns"])
            for row in ask(
                self.stack.warehouse_url,
                "SELECT toUnixTimestamp64Milli(window_start) * 1000000 AS ns FROM charges"
                " WHERE state = 'complete' GROUP BY window_start",
            )
        }
        starts = sorted(complete)[:-1]  # the last one ends inside itself, with the node
        ledger = {
            truth.Consumer(int(row["ns"]), row["device"], row["consumer"]): int(row["used_ns"])
            for row in ask(
                self.stack.warehouse_url,
                "SELECT toUnixTimestamp64Milli(window_start) * 1000000 AS ns, device, consumer,"
                " sum(used_ns) AS used_ns FROM charges WHERE consumer_kind != 'pool'"
                " GROUP BY window_start, device, consumer",
            )
        }
        alone = truth.used_from_core(windows)
        if self.reason:
            subjects = truth.simulated(SimulatedNode())
        else:
            subjects = truth.emulated(self.scene, self.emulator.uuids, self.emulator.truth())
        args = (subjects, starts, WINDOW_NS, self._unix_minus_boot_ns)
        with_all, ebpf_alone = truth.errors_in_points(ledger, *args), truth.errors_in_points(alone, *args)
        show_truth(console, with_all, ebpf_alone)
        shared = [subject.name for subject in subjects if subject.shares_device]
        return {
            "share_error_max_points": round(max(worst for _, _, worst in with_all.values()), 2),
            "share_error_shared_gpu_points": round(max(with_all[pod][2] for pod in shared), 2),
            "share_error_ebpf_alone_points": round(max(ebpf_alone[pod][2] for pod in shared), 2),
        }

    def show_verdict(self, console: Console, report: dict[str, Any]) -> bool:
        """Print what had to hold and whether it did."""
        assert self.alerts is not None
        assert self.closing is not None
        told, lines = self.alerts.told, self.closing.crossed
        checks = [
            ("every nano-unit accounted for", report["conservation_error_nano"] == 0),
            ("every nanosecond accounted for", report["conservation_error_ns"] == 0),
            ("no event lost", report["lost_events"] == 0 and report["events"] > 0),
            (
                f"row latency p99 {report['row_latency_p99_s']} s <= {LATENCY_P99_MAX_S} s",
                (report["row_latency_p99_s"] or 1e9) <= LATENCY_P99_MAX_S,
            ),
            (
                f"{len(told)} of {len(lines)} lines of budgets that were crossed were told, each once",
                sorted(one.line for one in told) == sorted(lines),
            ),
        ]
        if told:
            text = (
                f"breach latency p99 {report['breach_latency_p99_s']} s <= {LATENCY_P99_MAX_S} s, "
                f"Alertmanager has {report['alertmanager_received']} of {report['breaches']}"
            )
            soon = report["breach_latency_p99_s"] <= LATENCY_P99_MAX_S
            checks.append((text, soon and report["alertmanager_received"] == report["breaches"]))
        for key, what in (
            ("share_error_max_points", "all evidence"),
            ("share_error_ebpf_alone_points", "eBPF alone, shared GPU"),
        ):
            text = f"share error {report[key]} <= {SHARE_ERROR_MAX_POINTS} points ({what})"
            checks.append((text, report[key] <= SHARE_ERROR_MAX_POINTS))
        for text, held in checks:
            console.print(
                f"  {'ok ' if held else 'NOT'}  {text}", style="green" if held else "red", highlight=False
            )
        return all(held for _, held in checks)

    def stop(self) -> None:
        """Stop what this started; safe to call twice."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self.alerts is not None:
            self.alerts.stop()
        if self.agent is not None and self.agent in self.stack.services:
            self.stack.services.remove(self.agent)
            self.agent.stop()
        self.emulator.stop()
        scene.remove_cgroups(self.scene)

    def _note(self) -> str:
        try:
            row = ask(
                self.stack.warehouse_url,
                "SELECT uniqExact(window_start) AS windows, sum(total) AS total,"
                " sum(launches) AS launches FROM charges",
            )[0]
        except OSError:
            return ""
        clock = datetime.now(UTC).strftime("%H:%M:%S")
        spent = "-" if row["total"] is None else f"{float(row['total']):.4f} USD"
        return f"{clock}  windows charged: {row['windows']}  spent: {spent}  launches: {row['launches']}"

    def _bus(self) -> BusSettings:
        return BusSettings.load(kafka_bootstrap=self.stack.env["GPULEDGER_KAFKA_BOOTSTRAP"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
