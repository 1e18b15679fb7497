"""Many short bursts that the kernel tells as one: they count as they would one by one."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.columns import longs
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import START, Calls, S, gpu, pod_process, prices, row_of, state, window
from tests.support.time_slices import Program, run

A, B = pod_process(1, "a"), pod_process(2, "b")
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
POINT = 0.1 * S
LONG_NS = 250_000  # a burst that is told alone
RUN_NS = 1_000_000


def used(batch: EventBatch) -> list[int]:
    keyframe = state(SHARED, [Holder("a", 0), Holder("b", 0)], (A, B))
    charges = charge_window(window([keyframe], [batch]), prices(), Teams())
    return [int(row_of(charges, uid)["used_ns"]) for uid in "ab"]


def bursts(calls: Calls, process: int) -> list[tuple[int, int, int]]:
    """(start, end, launches) of each burst of a process, ns into the window."""
    found, start, launches = [], -1, 0
    for row in sorted(calls.rows, key=lambda row: row["time_ns"]):
        if row["process"] != process:
            continue
        if row["operation"] == Operation.LAUNCH_KERNEL:
            start = row["time_ns"] if start < 0 else start
            launches += 1
        elif start >= 0:
            found.append((start, row["time_ns"], launches))
            start, launches = -1, 0
    return found


def brief(burst: tuple[int, int, int]) -> bool:
    return burst[1] - burst[0] < LONG_NS


def tallied(calls: Calls, process: int) -> EventBatch:
    """The same calls with those of a process as intervals, as the kernel tells them: a longer burst
    alone; of short ones one alone, then those of a millisecond as one."""
    single = bursts(calls, process)
    rows = []
    at = 0
    while at < len(single):
        some = [single[at]]
        while at and at + len(some) < len(single) and brief(single[at - 1]) and brief(some[-1]):
            following = single[at + len(some)]
            if not brief(following) or following[1] - some[0][0] > RUN_NS:
                break
            some.append(following)
        length = sum(end - start for start, end, _ in some)
        rows.append((some[0][0], length, sum(n for *_, n in some), len(some)))
        at += len(some)
        if at < len(single):
            start, end, count = single[at]
            rows.append((start, end - start, count, 1))
            at += 1
    rest = Calls(calls.processes, rows=[row for row in calls.rows if row["process"] != process])
    start, length, launches, bundled = (longs(column) for column in zip(*rows, strict=True))
    return rest.batch(
        outstanding_process=np.full(len(rows), process),
        outstanding_device=np.zeros(len(rows), np.int64),
        outstanding_start_ns=start + START,
        outstanding_duration_ns=length,
        outstanding_blocked_ns=length,
        outstanding_launches=launches,
        outstanding_bursts=bundled,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Program(1, 10e-6, 0.0002), Program(10, 0.005, 0.005)),
        (Program(2, 50e-6, 0.0002), Program(20, 0.001, 0.005)),
        (Program(1, 20e-6, 0.0001), Program(3, 0.0005, 0.002)),
    ],
    ids=["tiny beside long", "storm and trainer", "two short"],
)
def test_bursts_told_as_one_move_a_share_by_no_more_than_a_point(first, second):
    calls = Calls([A, B])
    run([first, second], calls)
    one_by_one = used(calls.batch())
    told = tallied(calls, 0)
    assert told.outstanding_bursts.max() > 1
    as_one = used(told)
    assert max(abs(a - b) for a, b in zip(one_by_one, as_one, strict=True)) <= POINT
