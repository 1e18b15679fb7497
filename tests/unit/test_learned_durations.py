"""Durations that were learned while a process was alone decide who asked for how much."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.columns import longs
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, gpu, pod_process, prices, row_of, state, window

A, B, C = (pod_process(1 + i, uid) for i, uid in enumerate("abc"))
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])


def charge(calls, processes=(A, B), holders=None, **more):
    held = holders or [Holder(process.consumer, 0) for process in processes]
    found = charge_window(
        window([state(SHARED, held, processes, **more)], [calls.batch()]), prices(), Teams()
    )
    assert (found.conservation_error_nano, found.conservation_error_ns) == (0, 0)
    return found


def learned(*entries):
    """Columns of a keyframe: (process, function, threads, ns of one launch)."""
    columns = list(zip(*entries, strict=True))
    names = ("learned_process", "learned_function", "learned_threads", "learned_duration_ns")
    columns = {name: longs(list(column)) for name, column in zip(names, columns, strict=True)}
    return columns | {"learned_count": longs([1000] * len(entries))}


def bursts(spans, functions=(0xA, 0xB)):
    """For each (process, start s, end s, launches): launches of the process's function, then a wait."""
    calls = Calls([A, B], functions=functions)
    for process, start, end, launches in spans:
        for _ in range(launches):
            calls.call(Operation.LAUNCH_KERNEL, start, process=process, function=process, launched_threads=64)
        calls.call(Operation.SYNCHRONIZE_STREAM, end, end - start, process=process)
    return calls


def test_learned_durations_say_who_asked_for_how_much():
    """Both want the device 0-6 s. A launched 200 kernels of 10 ms, B 40 of 100 ms: 2 and 4 s, not 3 and 3."""
    calls = bursts([(0, 0, 6, 200), (1, 0, 6, 40)])
    told = learned((0, 0xA, 64, 10_000_000), (1, 0xB, 64, 100_000_000))
    charges = charge(calls, **told)
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (2 * S, 4 * S)
    blind = charge(calls)
    assert (row_of(blind, "a")["used_ns"], row_of(blind, "b")["used_ns"]) == (3 * S, 3 * S)


def test_of_one_whose_durations_are_learned_the_others_have_the_rest():
    """A's 200 kernels of 10 ms are 2 s; B's are not known, and the device was wanted for 6 s: 4 s are B's."""
    calls = bursts([(0, 0, 6, 200), (1, 0, 6, 40)])
    charges = charge(calls, **learned((0, 0xA, 64, 10_000_000)))
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (2 * S, 4 * S)


@pytest.mark.parametrize(
    "told",
    [(0, 0xC, 64, 10_000_000), (0, 0xA, 32, 10_000_000), (1, 0xA, 64, 10_000_000)],
    ids=["another function", "another size", "another process"],
)
def test_what_was_learned_of_something_else_says_nothing(told):
    charges = charge(bursts([(0, 0, 6, 200), (1, 0, 6, 40)]), **learned(told))
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (3 * S, 3 * S)


def test_learned_durations_that_the_window_contradicts_are_left_aside():
    """Alone 7-9 s A's 100 kernels took 2 s, not the 1 s that was learned: the durations are of other data.
    The 6 s before are then shared equally: A has 3 + 2 s."""
    calls = bursts([(0, 0, 6, 200), (1, 0, 6, 40), (0, 7, 9, 100)])
    charges = charge(calls, **learned((0, 0xA, 64, 10_000_000)))
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (5 * S, 3 * S)


def test_learned_durations_count_where_the_work_was_when_a_holder_changes():
    """A's burst 2-6 s is 2 s of work, half of it on each side of 4 s, when B's slot goes to C; B and C want
    the device all that time. B used 1 of 2-4 s, C 1 of 4-6 s."""
    calls = Calls([A, B, C], functions=[0xA])
    for _ in range(200):
        calls.call(Operation.LAUNCH_KERNEL, 2, function=0, launched_threads=64)
    calls.call(Operation.SYNCHRONIZE_STREAM, 6, 4)
    calls.busy(2, 4, process=1).busy(4, 6, process=2)
    told = learned((0, 0xA, 64, 10_000_000))
    states = [
        state(SHARED, [Holder("a", 0), Holder("b", 0)], [A, B, C], **told),
        state(SHARED, [Holder("a", 0), Holder("c", 0)], [A, B, C], at_s=4, sequence=2),
    ]
    charges = charge_window(window(states, [calls.batch()]), prices(), Teams())
    assert [row_of(charges, uid)["used_ns"] for uid in "abc"] == [2 * S, 1 * S, 1 * S]


def test_work_that_was_outstanding_before_the_window_is_not_taken_for_learned():
    """The keyframe says that A had launches outstanding, of unknown functions: its first burst is shared
    equally with B although its later launches are learned."""
    calls = bursts([(0, 0, 4, 10), (1, 0, 4, 10)])
    told = learned((0, 0xA, 64, 10_000_000)) | {"outstanding": [(0, 0)]}
    charges = charge(calls, **told)
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (2 * S, 2 * S)
