"""Busy time from calls alone: against the truth of a device in time slices, and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import (
    Calls,
    S,
    gpu,
    pod_process,
    prices,
    row_of,
    samples,
    state,
    window,
)
from tests.support.time_slices import Program, run

A, B, C = (pod_process(1 + i, uid) for i, uid in enumerate("abc"))
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
TRAINER = (10, 0.005, 0.005)  # 50 ms of kernels, 5 ms of pause
POINT = 0.1  # seconds of a window of 10 s


def charge(calls, sampled=(), layout=SHARED, processes=(A, B), holders=None, **more):
    held = holders or [Holder(process.consumer, 0) for process in processes]
    found = charge_window(
        window([state(layout, held, processes, **more)], [calls.batch()], sampled), prices(), Teams()
    )
    assert (found.conservation_error_nano, found.conservation_error_ns) == (0, 0)
    return found


def errors(charges, truth, processes=(A, B)):
    """How far each is from the truth, in points of the device's time."""
    return [
        abs(row_of(charges, process.consumer)["used_ns"] / S - seconds) / POINT
        for process, seconds in zip(processes, truth, strict=True)
    ]


def covered(charges, truth, processes=(A, B)):
    rows = [row_of(charges, process.consumer) for process in processes]
    return all(
        row["confidence_low_ns"] <= seconds * S + 1000 and seconds * S <= row["confidence_high_ns"] + 1000
        for row, seconds in zip(rows, truth, strict=True)
    )


@pytest.mark.parametrize(
    ("first", "second", "points"),
    [
        (Program(20, 0.001, 0.005), Program(20, 0.001, 0.005), 0.5),
        (Program(20, 0.001, 0.005), Program(5, 0.0005, 0.010), 2.0),
        (Program(5, 0.0008, 0.030), Program(10, 0.0004, 0.020), 0.5),
        (Program(500, 0.003, 0.0), Program(20, 0.001, 0.005), 1.5),
    ],
    ids=["equal trainers", "unequal trainers", "low duty", "hog and trainer"],
)
def test_who_waits_for_his_work_gets_what_he_had(first, second, points):
    calls = Calls([A, B])
    truth = run([first, second], calls)
    charges = charge(calls)
    assert max(errors(charges, truth)) <= points
    assert covered(charges, truth)


def test_a_tiny_kernel_that_waits_for_long_ones_is_not_taken_for_half_of_the_device():
    """10 us of work, waited for, then 0.5 ms of pause, beside 50 ms of kernels: outstanding nearly always,
    busy for half a percent. By equal parts it would be charged 40 points too much; its fastest bursts, which
    hit a pause of the trainer, say that none of them is longer than 10 us."""
    calls = Calls([A, B])
    truth = run([Program(1, 10e-6, 0.0005), Program(*TRAINER)], calls)
    assert truth[0] < 0.5 < 8 < truth[1]
    charges = charge(calls)
    assert max(errors(charges, truth)) <= 2
    assert covered(charges, truth)


def test_bursts_of_one_size_that_ran_alone_say_what_their_like_did_beside_others():
    """15 bursts of A take 100 ms each while it is alone, 10 more 300 ms each beside B, who wants the device
    1-4 s. All are of one launch, so that all are 100 ms of work: 2.5 s, not 1.5 + 10 x 0.15."""
    calls = Calls([A, B]).busy(1, 4, process=1)
    for number in range(10):
        calls.busy(1 + 0.3 * number, 1.299 + 0.3 * number)
    for number in range(15):
        calls.busy(4.1 + 0.2 * number, 4.2 + 0.2 * number)
    assert row_of(charge(calls), "a")["used_ns"] == pytest.approx(2.5 * S, abs=1e6)


def test_of_tiny_bursts_that_never_ran_alone_the_rest_of_the_device_is_the_neighbours():
    calls = Calls([A, B, C])
    programs = [Program(1, 10e-6, 0.0005), Program(*TRAINER), Program(20, 0.001, 0.010, starts_s=0.003)]
    truth = run(programs, calls)
    charges = charge(calls, processes=(A, B, C))
    assert max(errors(charges, truth, (A, B, C))) <= 5
    assert covered(charges, truth, (A, B, C))


@pytest.mark.parametrize("field", [Field.ENGINE_ACTIVE, Field.GPU_UTILIZATION])
@pytest.mark.parametrize(
    ("hidden", "trainer"),
    [
        (Program(2, 0.001, 0.020, waits=False), Program(20, 0.001, 0.005)),
        (Program(6, 0.001, 0.020, waits=False), Program(20, 0.001, 0.005)),
        (Program(20, 0.001, 0.020, waits=False), Program(10, 0.001, 0.010)),
        (Program(1, 10e-6, 0.001, waits=False), Program(20, 0.001, 0.005)),
    ],
    ids=["a tenth", "three tenths", "all it can get", "tiny"],
)
def test_who_never_waits_gets_what_the_devices_total_leaves(field, hidden, trainer):
    """Work at a steady rate that is never waited for, beside a trainer: by equal parts nearly half."""
    calls = Calls([A, B])
    truth = run([replace(hidden), replace(trainer)], calls)
    total = [samples([(field, i, 1, sum(truth) / 10) for i in range(10)])]
    charges = charge(calls, total)
    assert max(errors(charges, truth)) <= 3
    assert covered(charges, truth)
    assert covered(charge(calls), truth)  # without the total the shares are wrong, and the interval says so


def widths(charges, processes=(A, B)):
    rows = [row_of(charges, process.consumer) for process in processes]
    return [(row["confidence_high_ns"] - row["confidence_low_ns"]) / S / POINT for row in rows]


def test_the_devices_total_makes_the_interval_of_who_never_waits_narrow():
    """A tenth beside a trainer: without the total it may be anything, with it some points."""
    calls = Calls([A, B])
    truth = run([Program(2, 0.001, 0.020, waits=False), Program(20, 0.001, 0.005)], calls)
    total = [samples([(Field.ENGINE_ACTIVE, i, 1, sum(truth) / 10) for i in range(10)])]
    assert min(widths(charge(calls))) > 50
    assert max(widths(charge(calls, total))) < 25
    assert covered(charge(calls, total), truth)


def test_of_two_that_never_wait_only_what_both_had_is_known():
    """Two with a tenth each: either may have had all of it, or nothing."""
    calls = Calls([A, B, C])
    hidden = Program(2, 0.001, 0.020, waits=False)
    truth = run([hidden, replace(hidden, starts_s=0.01), Program(20, 0.001, 0.005)], calls)
    total = [samples([(Field.ENGINE_ACTIVE, i, 1, sum(truth) / 10) for i in range(10)])]
    charges = charge(calls, total, processes=(A, B, C))
    assert covered(charges, truth, (A, B, C))
    for consumer in "ab":
        row = row_of(charges, consumer)
        assert row["confidence_low_ns"] == 0
        assert row["confidence_high_ns"] >= row_of(charges, "a")["used_ns"] + row_of(charges, "b")["used_ns"]


def test_whose_calls_are_not_seen_had_at_most_what_the_device_shows():
    """Engine active 25 %: of two processes each has 12.5 % by equal parts, and may have had 0 to 25 %."""
    blind = [replace(process, witnessed=False) for process in (A, B)]
    engine = [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.25)])]
    resident = [(0, 0, 1), (1, 0, 1)]
    charges = charge(Calls(blind), engine, processes=blind, resident=resident, unwitnessed=[2])
    for name in "ab":
        row = row_of(charges, name)
        assert (row["used_ns"], row["evidence"]) == (1_250_000_000, "equal_active")
        assert row["confidence_low_ns"] == 0
        assert 2_500_000_000 <= row["confidence_high_ns"] <= 3_000_000_000


@pytest.mark.parametrize(("measured", "evidence"), [(0.55, "busy_estimated"), (0.75, "process_measured")])
def test_an_estimate_that_the_device_confirms_stands_before_samples_but_not_against_them(measured, evidence):
    """Two that each wait for 10 s have half; NVML says 55 %, which its sampling explains, or 75 %, which it
    does not."""
    calls = Calls([A, B]).busy(0, 10).busy(0, 10, process=1)
    sampled = [samples([(Field.ENGINE_ACTIVE, 0, 10, 1.0)])]
    for number, (process, part) in enumerate(((A, measured), (B, 1 - measured))):
        each = [(Field.PROCESS_SM_UTILIZATION, i, 1, part) for i in range(10)]
        sampled.append(samples(each, 3 + number, processes=[process], of_process=0))
    row = row_of(charge(calls, sampled), "a")
    assert row["evidence"] == evidence
    assert row["used_ns"] == pytest.approx((5 if evidence == "busy_estimated" else 7.5) * S)
