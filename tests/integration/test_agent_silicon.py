"""NVML beside the emulated GPU: instances, errors, temperature, and a driver that goes and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpuledger.agent.devices import parse_device_id
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.holders.source import find_device
from gpuledger.agent.nvml import NvmlSession
from gpuledger.agent.samplers.nvml import LAYOUT_ROUNDS, REOPEN_AFTER_ROUNDS, NvmlSampler
from gpuledger.agent.samplers.nvml_device import MAX_INTERVAL_NS
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.fields import Field, SampleSource
from tests.emulator import H100, T4, Emulator, finish, mig_slice
from tests.support.waiting import until

CLOCK = SystemClock()


@contextmanager
def sampling(emulator: Emulator) -> Iterator[tuple[NvmlSession, NvmlSampler]]:
    with emulator.nvml_here():
        session = NvmlSession()
        sampler = NvmlSampler(session, CLOCK, AgentTime.begin(CLOCK, "boot"))
        try:
            yield session, sampler
        finally:
            sampler.close()
            session.close()


def xids(taken: Round) -> list[Sample]:
    return [one for one in taken.samples if one.field is Field.XID]


def values(taken: Round) -> dict[tuple[str, Field], float]:
    return {(s.device, s.field): s.value for s in taken.samples if s.pid is None}


def test_instances_are_devices_of_their_own_and_their_gpu_is_divided() -> None:
    with (
        Emulator([H100, T4, mig_slice(0, 7), mig_slice(0, 9)]) as emulator,
        sampling(emulator) as (session, _),
    ):
        gpu, turing, first, second = emulator.uuids
        found = [
            (
                d.uuid,
                d.parent_uuid,
                d.index,
                d.gpu_instance,
                d.slices,
                d.slices_total,
                d.sharing,
                d.mig_profile,
            )
            for d in session.devices
        ]
        assert found == [
            (gpu, "", 0, -1, 0, 7, "mig", ""),
            (first, gpu, 0, 7, 1, 7, "exclusive", "1g.10gb"),
            (second, gpu, 0, 9, 1, 7, "exclusive", "1g.10gb"),
            (turing, "", 1, -1, 0, 0, "exclusive", ""),
        ]
        assert first.startswith("MIG-")
        assert (session.devices[1].sm_count, session.devices[1].memory_total_bytes) == (16, 10 << 30)
        assert session.devices[1].model == "NVIDIA H100 80GB HBM3"


def test_the_layout_says_where_instances_lie_and_where_one_slice_may_begin() -> None:
    instances = [mig_slice(0, 1, 3, start=4), mig_slice(0, 9, start=2)]
    with Emulator([H100, *instances]) as emulator, sampling(emulator) as (session, _):
        gpu, wide, narrow = session.devices
    assert (gpu.slice_starts, gpu.slice_size) == (0b111_1111, 1)
    assert (wide.placement_start, wide.placement_size) == (4, 4)
    assert (narrow.placement_start, narrow.placement_size) == (2, 1)
    with Emulator([H100, mig_slice(0, 7)]) as emulator, sampling(emulator) as (session, _):
        assert (session.devices[1].placement_start, session.devices[1].placement_size) == (-1, 0)


def test_the_number_of_a_device_s_node_is_read_and_found_by() -> None:
    gpus = [replace(H100, minor=2), replace(H100, minor=0), mig_slice(1, 7), replace(T4, minor=1)]
    with Emulator(gpus) as emulator, sampling(emulator) as (session, _):
        uuids = emulator.uuids
        assert {d.uuid: (d.index, d.minor) for d in session.devices} == {
            uuids[0]: (0, 2),
            uuids[1]: (1, 0),
            uuids[2]: (1, 0),
            uuids[3]: (2, 1),
        }
        meant = [find_device(session.devices, parse_device_id("", f"nvidia{n}")) for n in range(3)]
        assert [session.devices[place].uuid for place in meant if place is not None] == [
            uuids[1],
            uuids[3],
            uuids[0],
        ]
        instance = find_device(session.devices, parse_device_id("", "nvidia0/gi7"))
        assert instance is not None
        assert session.devices[instance].uuid == uuids[2]


def test_sm_active_is_declared_of_the_devices_that_have_it() -> None:
    with Emulator([H100, H100, T4, mig_slice(1, 7)]) as emulator, sampling(emulator) as (session, _):
        declared = {device.uuid: device.sm_active_declared for device in session.devices}
    whole, divided, turing, instance = emulator.uuids
    assert declared == {whole: True, divided: False, turing: False, instance: True}


def test_a_layout_that_changes_is_noticed_and_one_that_stays_is_not(tmp_path: Path) -> None:
    directory = tmp_path / "gpu"
    before, after = [H100, mig_slice(0, 7), mig_slice(0, 9)], [H100, mig_slice(0, 7)]
    with Emulator(before, directory) as emulator, sampling(emulator) as (_, sampler):
        assert not any(sampler.sample().devices for _ in range(2 * LAYOUT_ROUNDS))
        emulator.stop()
        with Emulator(after, directory) as divided:
            found = [sampler.sample() for _ in range(LAYOUT_ROUNDS + 2 * REOPEN_AFTER_ROUNDS)]
    told = [taken.devices for taken in found if taken.devices is not None]
    assert [[device.uuid for device in devices] for devices in told] == [divided.uuids]
    assert {sample.device for sample in found[-1].samples} == set(divided.uuids)


def test_an_instance_that_was_not_there_at_the_start_is_noticed_within_a_few_rounds() -> None:
    with Emulator([H100, mig_slice(0, 7), mig_slice(0, 9)]) as emulator, emulator.nvml_here():
        session = NvmlSession()
        del session.devices[-1], session.handles[-1]  # as if it had been made only now
        sampler = NvmlSampler(session, CLOCK, AgentTime.begin(CLOCK, "boot"))
        found = [sampler.sample().devices for _ in range(LAYOUT_ROUNDS)]
        sampler.close()
        session.close()
        uuids = emulator.uuids
    assert [devices and [device.uuid for device in devices] for devices in found] == [
        *[None] * (LAYOUT_ROUNDS - 1),
        uuids,
    ]


def test_what_is_measured_of_an_instance_is_its_own_and_not_counted_twice() -> None:
    with Emulator([H100, mig_slice(0, 7), mig_slice(0, 9)]) as emulator, sampling(emulator) as (_, sampler):
        gpu, first, second = emulator.uuids
        # with its queue full it has work for 20 s, whether the machine lets it run or not
        busy = emulator.spawn(["hog", "--duration-us", "20000", "--memory", "1G"], visible_devices="1")
        until(lambda: emulator.truth().at_work(first) == {busy.pid})
        sampler.sample()
        CLOCK.sleep(0.8)
        taken = sampler.sample()
        finish(busy)
    found = values(taken)
    assert found[first, Field.ENGINE_ACTIVE] == pytest.approx(1, abs=0.02)
    assert found[second, Field.ENGINE_ACTIVE] == 0.0
    assert (gpu, Field.ENGINE_ACTIVE) not in found
    assert found[first, Field.FRAMEBUFFER_USED_BYTES] > 1 << 30
    assert {device: set(pids) for device, pids in taken.contexts.items()} == {
        first: {busy.pid},
        second: set(),
    }
    measured = {field for device, field in found if device == first}
    assert not measured & {Field.GPU_UTILIZATION, Field.POWER_WATTS, Field.ENERGY_JOULES}
    assert Field.POWER_WATTS in {field for device, field in found if device == gpu}
    assert not [s for s in taken.samples if s.field is Field.PROCESS_SM_UTILIZATION]


def test_what_an_instance_can_not_tell_is_said_once() -> None:
    with Emulator([H100, mig_slice(0, 7)]) as emulator, sampling(emulator) as (_, sampler):
        first, second = sampler.sample(), sampler.sample()
        instance = emulator.uuids[1]
    said = {gap.field for gap in first.gaps if gap.device == instance and gap.reason == "not_supported"}
    assert {Field.GPU_UTILIZATION, Field.POWER_WATTS, Field.TEMPERATURE_CELSIUS} <= said
    assert not [gap for gap in second.gaps if gap.reason == "not_supported"]


def test_temperature_and_clock_are_measured() -> None:
    with Emulator([H100]) as emulator, sampling(emulator) as (_, sampler):
        found = values(sampler.sample())
        gpu = emulator.uuids[0]
    assert found[gpu, Field.TEMPERATURE_CELSIUS] == 30.0
    assert found[gpu, Field.SM_CLOCK_HZ] == 1.41e9


def test_an_error_of_a_device_is_told_once_with_its_code() -> None:
    with Emulator([H100, T4]) as emulator, sampling(emulator) as (_, sampler):
        before = [sampler.sample()]
        emulator.xid(1, 31)
        until(lambda: before.append(sampler.sample()) or xids(before[-1]), pause_s=0.2)
        after, later = before.pop(), sampler.sample()
        device = emulator.uuids[1]
    (told,) = xids(after)
    assert (told.device, told.value, told.source) == (device, 31.0, SampleSource.NVML)
    # since the device was looked at in the round before, and no longer than a reading may speak for
    assert told.start_ns >= max(before[-1].through_ns, told.start_ns + told.duration_ns - MAX_INTERVAL_NS)
    assert not [one for taken in (*before, later) for one in xids(taken)]


def test_when_one_gpu_falls_off_the_bus_the_others_are_measured_as_before() -> None:
    with Emulator([H100, H100]) as emulator, sampling(emulator) as (_, sampler):
        rounds = [sampler.sample()]
        emulator.xid(0, 79)
        until(lambda: rounds.append(sampler.sample()) or rounds[-1].lost, pause_s=0.2)
        fell = len(rounds) - 1
        rounds += [sampler.sample() for _ in range(2 * REOPEN_AFTER_ROUNDS)]
        gone, well = emulator.uuids
    # its last word is told once: it may come in the middle of a round, behind or before the look at errors
    assert [(told.device, told.value) for taken in rounds for told in xids(taken)] == [(gone, 79.0)]
    after = rounds[fell:]
    assert {taken.lost for taken in after} == {frozenset({gone})}
    for taken in after:
        measured = {s.field for s in taken.samples if s.device == gone} - {Field.XID}
        lost = [gap for gap in taken.gaps if gap.device == gone]
        missing = {gap.field for gap in lost}
        assert {gap.reason for gap in lost} == {"lost"}
        assert Field.GPU_UTILIZATION in (measured | missing if taken is after[0] else missing - measured)
        assert taken is after[0] or not measured
        assert (well, Field.GPU_UTILIZATION) in values(taken)


def test_after_a_driver_reload_measuring_goes_on(tmp_path: Path) -> None:
    emulator = Emulator([H100, T4], directory=tmp_path / "gpu")
    emulator.start()
    with sampling(emulator) as (_, sampler):
        assert sampler.sample().lost == frozenset()
        emulator.stop()
        away = [sampler.sample() for _ in range(REOPEN_AFTER_ROUNDS)]
        assert [taken.lost for taken in away] == [frozenset(emulator.uuids)] * REOPEN_AFTER_ROUNDS
        assert not any(taken.samples for taken in away)
        emulator.start()
        for _ in range(REOPEN_AFTER_ROUNDS):
            last_lost = sampler.sample().lost
        CLOCK.sleep(0.2)
        back = sampler.sample()
        emulator.stop()
    assert last_lost == frozenset(emulator.uuids)
    assert back.lost == frozenset()
    found = values(back)
    assert (emulator.uuids[0], Field.ENGINE_ACTIVE) in found
    assert (emulator.uuids[1], Field.GPU_UTILIZATION) in found
    assert not [s for s in back.samples if s.field is Field.ENERGY_JOULES and s.value < 0]
