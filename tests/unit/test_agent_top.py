"""What `agent top` makes of events: sums, memory, and shares of time between those who have work."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.state import NodeState
from gpuledger.agent.top import Activity
from gpuledger.agent.top.activity import Consumer, DeviceNow, Snapshot
from gpuledger.agent.top.screen import percent, render, runs, size
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import NodeLayout
from tests.support.agent import MS, POD, S, StatedProcesses, devices, raw


class Node:
    """Process 1 in a pod, process 2 of the host; both begin on the first device."""

    def __init__(self) -> None:
        reader = StatedProcesses()
        reader.facts = {1: ProcessFacts(30 * MS, 7), 2: ProcessFacts(30 * MS, 8)}
        self.table = ProcessTable(reader, devices(2), "boot-id-of-a-test")
        self.activity = Activity(NodeState(NodeLayout(devices=devices(2)), self.table, 0), 100 * S)

    def call(self, at_ns: int, operation: Operation, pid: int = 1, **columns: int) -> None:
        cgroup = 7 if pid == 1 else 8
        row = raw(100 * S + at_ns, operation, pid=pid, cgroup_id=cgroup, **columns)
        self.activity.add(self.table.resolve(row, 0))


def test_only_calls_that_succeed_count_and_others_are_errors() -> None:
    node = Node()
    for at in (1, 2, 3):
        node.call(at * MS, Operation.LAUNCH_KERNEL)
    node.call(4 * MS, Operation.LAUNCH_KERNEL, result=1)
    node.call(5 * MS, Operation.COPY_HOST_TO_DEVICE, bytes=4099)
    node.call(6 * MS, Operation.ALLOCATE_DEVICE, bytes=1 << 20)
    (row,) = node.activity.close(101 * S, {}).consumers
    assert (row.kind, row.consumer, row.devices) == ("pod", POD, [0])
    assert (row.launches, row.errors, row.copied_bytes, row.memory_bytes) == (3, 1, 4099, 1 << 20)


def test_time_with_work_of_two_is_shared_between_them() -> None:
    node = Node()
    node.call(100 * MS, Operation.LAUNCH_KERNEL, duration_ns=0)
    node.call(300 * MS, Operation.LAUNCH_KERNEL, pid=2, duration_ns=0)
    node.call(500 * MS, Operation.SYNCHRONIZE_CONTEXT)
    node.call(600 * MS, Operation.SYNCHRONIZE_CONTEXT, pid=2)
    snapshot = node.activity.close(101 * S, {})
    shares = {row.kind: row.busy_ratio for row in snapshot.consumers}
    assert shares == pytest.approx({"pod": 0.3, "host_process": 0.2})
    assert [device.busy_ratio for device in snapshot.devices] == pytest.approx([0.5, 0.0])


def test_work_that_goes_on_counts_in_the_next_interval_until_its_process_ends() -> None:
    node = Node()
    node.call(500 * MS, Operation.LAUNCH_KERNEL, duration_ns=0)
    assert node.activity.close(101 * S, {}).consumers[0].busy_ratio == pytest.approx(0.5)
    assert node.activity.close(102 * S, {}).consumers[0].busy_ratio == pytest.approx(1.0)
    last = node.activity.close(103 * S, {0: 102 * S + 250 * MS})
    assert last.consumers[0].busy_ratio == pytest.approx(0.25)
    assert last.consumers[0].launches == 0


def test_what_returns_at_the_border_or_later_is_of_the_next_interval() -> None:
    node = Node()
    node.call(999 * MS, Operation.LAUNCH_KERNEL)
    node.call(S, Operation.LAUNCH_KERNEL)
    assert [node.activity.close((101 + n) * S, {}).consumers[0].launches for n in range(2)] == [1, 1]


def test_what_is_missing_is_a_dash_and_not_zero() -> None:
    assert (percent(None), percent(0.0), percent(0.537)) == ("-", "0 %", "54 %")
    assert (size(0), size(1536), size(80 << 30)) == ("0 B", "1.5 KiB", "80.0 GiB")


def shown(snapshot: Snapshot, width: int = 200) -> list[str]:
    """The screen's lines."""
    file = io.StringIO()
    Console(width=width, file=file).print(render(snapshot))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_node_without_devices_and_work_says_so_instead_of_empty_tables() -> None:
    assert shown(Snapshot(0, S, [], [])) == [
        "no GPU is known",
        "nobody uses a GPU",
        "0 calls/s, 0 lost, over 1.0 s",
    ]


def test_a_process_of_the_host_is_called_by_its_program_and_its_pid() -> None:
    node = Node()
    node.call(MS, Operation.LAUNCH_KERNEL, pid=2)
    snapshot = node.activity.close(101 * S, {})
    snapshot.consumers[0].name = "python3"
    assert [line.split("  ")[0] for line in shown(snapshot) if "host_process" in line] == ["python3 (pid 2)"]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_however_long_names_are_no_number_is_cut_off(width: int) -> None:
    pod = Consumer(
        "pod", POD, "team-recommendation-training", "llama-finetune-7b-worker-0", 4, list(range(8))
    )
    pod.launches, pod.copied_bytes, pod.memory_bytes, pod.busy_ratio, pod.errors = (
        1234560,
        5 << 30,
        70 << 30,
        3.2,
        17,
    )
    device = DeviceNow(0, "GPU-0", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 0.78, 0.62, 0.73)
    device.memory_used_bytes, device.memory_total_bytes, device.power_watts = 13 << 30, 96 << 30, 459.0
    lines = shown(Snapshot(0, S, [pod], [device], events=3000), width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines)
    for number in (
        "1234560",
        "5.0 GiB",
        "70.0 GiB",
        "320 %",
        "17",
        "0-7",
        "78 %",
        "73 %",
        "96.0 GiB",
        "459 W",
    ):
        assert number in words
    letters = "".join(words.split())
    for heading in ("launches/s", "copied/s", "SM active", "errors"):
        assert heading in words
    assert "…" not in letters


def test_devices_in_a_row_are_told_as_one_run() -> None:
    assert [runs(found) for found in ([], [3], [0, 1], [0, 1, 2, 3, 7], [1, 3, 4])] == [
        "",
        "3",
        "0,1",
        "0-3,7",
        "1,3,4",
    ]
