"""The simulated node: its events, samples and truth agree with each other and with its description."""

from itertools import pairwise

import numpy as np
import pytest

from gpuledger.agent.coarsen import OutstandingIntervals
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.names import Names
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.simulated import SimulatedNode, SimulatedProcesses, SimulatedSampler, SimulatedSource
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.fields import Field
from tests.support.agent import S


def test_the_truth_is_the_one_that_is_described() -> None:
    node = SimulatedNode()
    shares = {actor.name: actor.busy_ns(17 * S, 27 * S) / (10 * S) for actor in node.actors}
    assert shares == pytest.approx({"trainer": 0.7, "heavy": 0.8, "bursty": 0.2, "warm": 0.0, "miner": 0.2})
    assert [node.any_busy_ns(d, 0, S) / S for d in range(3)] == pytest.approx([0.7, 1.0, 0.2])


def test_the_truth_of_parts_adds_up() -> None:
    node = SimulatedNode()
    for actor in node.actors:
        parts = sum(actor.busy_ns(at, at + 77_777_777) for at in range(0, 77_777_777 * 30, 77_777_777))
        assert parts == pytest.approx(actor.busy_ns(0, 77_777_777 * 30))


def test_drains_give_every_call_once_however_they_are_cut() -> None:
    node = SimulatedNode()
    whole = node.events(3 * S + 123, 7 * S)
    cuts = [3 * S + 123, 3 * S + 124, 4 * S, 5 * S + S // 3, 7 * S]
    parts = np.concatenate([node.events(a, b) for a, b in pairwise(cuts)])
    assert len(whole) > 1000
    assert np.array_equal(np.sort(whole, order=["time_ns", "pid"]), np.sort(parts, order=["time_ns", "pid"]))


def test_the_same_seed_is_the_same_node() -> None:
    assert SimulatedNode(3).devices == SimulatedNode(3).devices
    assert SimulatedNode(3).devices[0].uuid != SimulatedNode(4).devices[0].uuid


def test_sharing_the_outstanding_time_equally_gives_the_true_shares() -> None:
    node = SimulatedNode()
    table = ProcessTable(SimulatedProcesses(node), node.devices, "boot")
    events = table.resolve(node.events(10 * S, 20 * S), 0)
    events = events[np.argsort(events["time_ns"], kind="stable")]
    found = OutstandingIntervals(10 * S, {}).apply(events)
    busy = dict.fromkeys((actor.pid for actor in node.actors), 0.0)
    shared = found.device == 1
    edges = np.unique(np.r_[found.start_ns[shared], (found.start_ns + found.duration_ns)[shared]])
    for start, end in pairwise(edges):
        inside = shared & (found.start_ns <= start) & (found.start_ns + found.duration_ns >= end)
        for process in found.process[inside]:
            busy[table[int(process)].pid] += (end - start) / inside.sum()
    truth = {a.pid: a.busy_ns(10 * S, 20 * S) / (10 * S) for a in node.actors if a.device == 1}
    assert {pid: busy[pid] / (10 * S) for pid in truth} == pytest.approx(truth, abs=0.005)


def test_processes_belong_to_the_pods_that_hold_the_devices() -> None:
    node = SimulatedNode()
    table = ProcessTable(SimulatedProcesses(node), node.devices, "boot")
    events = table.resolve(SimulatedSource(node, ManualClock(boot_ns=5 * S)).drain(), 0)
    kinds = {}
    for row in events:
        record = table.describe(int(row["process"]), Names(node.holders()), 0)
        kinds[record.name] = (record.consumer_kind, int(row["device"]), record.pending)
    assert kinds == {
        "trainer": ("pod", 0, False),
        "heavy": ("pod", 1, False),
        "bursty": ("pod", 1, False),
        "warm": ("pod", 1, False),
        "miner": ("host_process", 2, False),
    }
    held = node.holders().records(node.devices)
    assert sorted((h.device, h.slots) for h in held) == [(0, 1), (1, 1), (1, 1), (1, 1)]


def test_samples_measure_the_truth_since_the_last_round() -> None:
    clock = ManualClock(unix_ns=1000 * S, boot_ns=20 * S)
    node = SimulatedNode()
    sampler = SimulatedSampler(node, clock, AgentTime.begin(clock, "boot"))
    clock.advance(2 * S)
    taken = sampler.sample()
    assert taken.through_ns == 1002 * S
    engine = {s.device: s.value for s in taken.samples if s.field == Field.ENGINE_ACTIVE}
    assert [engine[d.uuid] for d in node.devices] == pytest.approx([0.7, 1.0, 0.2])
    assert {s.duration_ns for s in taken.samples} == {2 * S, 0}
    shares = {s.pid: s.value for s in taken.samples if s.field == Field.PROCESS_SM_UTILIZATION}
    assert sorted(shares.values()) == pytest.approx([0.2, 0.2, 0.7, 0.8]), "no value for who did nothing"
