"""What `agent top` makes of events: sums, memory, and shares of time between those who have work."""

from __future__ import annotations

import pytest

from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.state import NodeState
from gpuledger.agent.top import Activity
from gpuledger.agent.top.screen import percent, size
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
