"""The devices of a node change while processes work: what is known of those that stay is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.samplers.samples import Gap, Round
from gpuledger.contract.fields import SampleSource
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, EventBatch, Holdings, NodeLifetime, SampleBatch, decode
from tests.support.agent import MS, Bench, S, StatedProcesses, devices, raw, uuid
from tests.support.passing import PassingAgent, PassingSampler
from tests.support.passing_node import GPUS, KNOWN_BYTES, Passing

MIB = 1 << 20


def instance(number: int, parent: Device) -> Device:
    return Device(
        uuid=f"MIG-{number:08x}-0000-0000-0000-000000000000",
        index=parent.index,
        minor=parent.minor,
        parent_uuid=parent.uuid,
        gpu_instance=number,
        compute_instance=0,
    )


def working() -> Bench:
    """Process 1 works on the first GPU and process 2 on the other, each with a MiB or two."""
    reader = StatedProcesses()
    for pid, device in ((1, 0), (2, 1)):
        environment = {"NVIDIA_VISIBLE_DEVICES": uuid(device)}
        reader.facts[pid] = ProcessFacts(30 * MS, 7, f"process-{pid}", environment)
    bench = Bench(reader=reader, processes=())
    assert [bench.table.of_pid(pid) for pid in (1, 2)] == [0, 1]
    rows = [
        raw(S, Operation.ALLOCATE_DEVICE, bytes=MIB),
        raw(S, Operation.ALLOCATE_DEVICE, pid=2, bytes=2 * MIB),
        raw(2 * S),
        raw(2 * S + 1, pid=2),
    ]
    bench.state.apply(bench.resolve(*rows))
    return bench


def by_uuid(bench: Bench, found: Iterable[tuple[tuple[int, int], object]]) -> dict[tuple[int, str], object]:
    """(process, UUID) -> what is known."""
    uuids = bench.state.device_uuids
    return {(process, uuids[device]): value for (process, device), value in found}


def test_work_and_memory_stay_on_their_device_wherever_that_is_listed_now() -> None:
    bench = working()
    before = by_uuid(bench, bench.state.outstanding.items()), by_uuid(bench, bench.state.resident.items())
    assert set(before[0]) == {(0, uuid(0)), (1, uuid(1))}
    bench.state.know([replace(device, index=5 - device.index) for device in reversed(devices())])
    after = by_uuid(bench, bench.state.outstanding.items()), by_uuid(bench, bench.state.resident.items())
    assert after == before
    calls = bench.resolve(raw(3 * S), raw(3 * S, pid=2))
    assert [bench.state.device_uuids[device] for device in calls["device"]] == [uuid(0), uuid(1)]


def test_of_a_gpu_that_is_divided_now_nothing_is_left_and_the_other_s_work_goes_on() -> None:
    bench = working()
    first, second = devices()
    divided = replace(first, sharing="mig")
    bench.state.know([divided, instance(7, divided), instance(9, divided), second])
    assert set(by_uuid(bench, bench.state.outstanding.items())) == {(1, uuid(1))}
    assert by_uuid(bench, bench.state.resident.items()) == {(1, uuid(1)): 2 * MIB}
    bench.reader.facts[3] = ProcessFacts(
        40 * MS, 7, "newcomer", {"NVIDIA_VISIBLE_DEVICES": instance(9, divided).uuid}
    )
    calls = bench.resolve(raw(3 * S, pid=3, start_ns=40 * MS), raw(3 * S, pid=2))
    assert [bench.state.device_uuids[device] for device in calls["device"]] == [
        instance(9, divided).uuid,
        uuid(1),
    ]


def test_of_a_device_that_went_nothing_is_left() -> None:
    bench = working()
    bench.state.know(devices()[1:])
    assert set(by_uuid(bench, bench.state.outstanding.items())) == {(1, uuid(1))}
    assert by_uuid(bench, bench.state.resident.items()) == {(1, uuid(1)): 2 * MIB}


def test_work_that_began_before_there_were_devices_is_on_the_one_that_its_process_can_mean() -> None:
    bench = Bench()
    bench.state.know([])
    bench.state.apply(bench.resolve(raw(2 * S)))
    assert [key for key, _ in bench.state.outstanding.items()] == [(0, -1)]
    bench.state.know(devices(1))
    assert [key for key, _ in bench.state.outstanding.items()] == [(0, 0)]
    bench.state.apply(bench.resolve(raw(3 * S, Operation.SYNCHRONIZE_CONTEXT)))
    assert bench.state.outstanding.items() == []


class LateSampler(PassingSampler):
    """There is no driver until a time, and then it has all devices."""

    there_ns = 0

    def _round(self, at_ns: int) -> Round:
        taken = super()._round(at_ns)
        if at_ns > self.there_ns:
            return taken
        silent = Round(taken.through_ns)
        silent.gaps.append(Gap("", None, SampleSource.NVML, taken.through_ns - S, S, "lost"))
        if at_ns == self.there_ns:
            silent.devices = devices(GPUS)
        return silent


def test_every_call_is_in_the_records_once_whether_the_driver_was_there_or_not(tmp_path: Path) -> None:
    late_ns, seconds = 14 * S, 41
    passing = PassingAgent(tmp_path, Passing(living=6, life_ns=4 * S, calls_per_s=20), gpus=0)
    agent, node = passing.agent, passing.node
    sampler = LateSampler(node, agent._time)
    sampler.there_ns = node.first_ns + late_ns
    agent._sampler = sampler
    kept = []
    for _ in range(seconds * 2):
        node.clock.advance(S // 2)
        agent.tick()
        while (ticket := passing.queue.take(0)) is not None:
            kept.append(ticket.entry)
            passing.queue.acknowledge(ticket)
    agent._finish(ends_node=False)
    while (ticket := passing.queue.take(0)) is not None:
        kept.append(ticket.entry)
    classes = {"EventBatch": EventBatch, "SampleBatch": SampleBatch, "Holdings": Holdings}
    found = [
        (RecordHeaders.from_kafka(e.key, e.headers), decode(classes[e.record], e.body))
        for e in kept
        if e.record in classes
    ]
    told = sum(int(body.count.sum()) for _, body in found if isinstance(body, EventBatch))
    assert told == passing.source.made > 0
    first, second = sorted({headers.id.epoch_ns for headers, _ in found})
    for epoch_ns, gpus in ((first, 0), (second, GPUS)):
        layouts = [b.layout for h, b in found if isinstance(b, Holdings) and h.id.epoch_ns == epoch_ns]
        assert layouts
        assert {len(layout.devices) for layout in layouts} == {gpus}
    assert second - node.first_ns in (late_ns, late_ns + S // 2)
    frames = [body for h, body in found if isinstance(body, Holdings) and h.id.epoch_ns == second]
    for frame in frames:
        assert len(frame.processes) in (6, 7)  # one may end at the very instant
        assert set(frame.resident_bytes.tolist()) == {KNOWN_BYTES}
    # a record of calls names their devices once they are known
    calls = [b for h, b in found if isinstance(b, EventBatch) and h.id.epoch_ns == second]
    known = np.concatenate([batch.device for batch in calls if len(batch.device)])
    assert (known >= 0).all()
    assert any(e.record == NodeLifetime.__name__ for e in kept)
