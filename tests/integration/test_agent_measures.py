"""What NVML says of an emulated GPU, as the agent's sampler takes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.nvml import NvmlSession
from gpuledger.agent.samplers.nvml import NvmlSampler
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.fields import Field
from tests.emulator import H100, T4, Emulator, finish
from tests.support.waiting import until


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator([H100, H100, T4]) as started:
        yield started


def shares_of(taken: Round) -> list[Sample]:
    return [s for s in taken.samples if s.field is Field.PROCESS_SM_UTILIZATION]


def test_measurements_say_what_the_device_did_and_for_how_long(emulator: Emulator) -> None:
    clock = SystemClock()
    with emulator.nvml_here():
        session = NvmlSession()
        try:
            time = AgentTime.begin(clock, "boot")
            sampler = NvmlSampler(session, clock, time)
            opened_ns = time.now_ns(clock)
            # with its queue full it has work for 20 s, whether the machine lets it run or not
            busy = emulator.spawn(["hog", "--duration-us", "20000"], visible_devices="1")
            until(lambda: emulator.truth().at_work(emulator.uuids[1]) == {busy.pid})
            rounds: list[tuple[int, Round, int]] = []

            def shares_known() -> bool:
                before_ns = time.now_ns(clock)
                rounds.append((before_ns, sampler.sample(), time.now_ns(clock)))
                shares = shares_of(rounds[-1][1])  # the first may speak of a time in which it had not begun
                return len(rounds) > 1 and any(one.value > 0.5 for one in shares)

            until(shares_known, pause_s=0.3)
            finish(busy)
            sampler.close()
        finally:
            session.close()
    assert [device.uuid for device in session.devices] == emulator.uuids
    assert session.devices[0].memory_total_bytes > 0
    (first_from, _, first_to), (from_ns, taken, to_ns) = rounds[-2:]
    values = {(s.device, s.field): s for s in taken.samples if s.pid is None}
    engine = values[emulator.uuids[1], Field.ENGINE_ACTIVE]
    assert engine.value == pytest.approx(1, abs=0.02)
    assert first_from <= engine.start_ns <= first_to
    assert from_ns <= engine.start_ns + engine.duration_ns <= to_ns
    assert values[emulator.uuids[0], Field.ENGINE_ACTIVE].value == 0.0
    assert values[emulator.uuids[1], Field.SM_ACTIVE].value <= engine.value + 0.01
    memory = values[emulator.uuids[1], Field.FRAMEBUFFER_USED_BYTES]
    assert memory.duration_ns == 0
    shares = shares_of(taken)
    assert {(s.device, s.pid) for s in shares} == {(emulator.uuids[1], busy.pid)}
    assert 0.5 < shares[0].value <= 1.0
    assert 0 < shares[0].duration_ns <= 2_000_000_000
    assert opened_ns <= shares[0].start_ns + shares[0].duration_ns <= to_ns
    assert set(taken.contexts[emulator.uuids[1]]) == {busy.pid}
    energy = values[emulator.uuids[1], Field.ENERGY_JOULES]
    assert energy.value > values[emulator.uuids[0], Field.ENERGY_JOULES].value > 0


def test_a_device_without_profiling_counters_has_no_value_and_not_zero(emulator: Emulator) -> None:
    clock = SystemClock()
    with emulator.nvml_here():
        session = NvmlSession()
        try:
            sampler = NvmlSampler(session, clock, AgentTime.begin(clock, "boot"))
            clock.sleep(0.2)
            taken = sampler.sample()
            sampler.close()
        finally:
            session.close()
    fields = {s.field for s in taken.samples if s.device == emulator.uuids[2]}
    assert Field.GPU_UTILIZATION in fields
    assert not fields & {Field.ENGINE_ACTIVE, Field.SM_ACTIVE, Field.DRAM_ACTIVE}


def test_when_the_driver_has_gone_every_device_is_lost_and_nothing_is_measured() -> None:
    clock = SystemClock()
    with Emulator([H100]) as gone, gone.nvml_here():
        session = NvmlSession()
        try:
            sampler = NvmlSampler(session, clock, AgentTime.begin(clock, "boot"))
            clock.sleep(0.2)
            assert sampler.sample().samples
            gone.stop()
            taken = sampler.sample()
            sampler.close()
        finally:
            session.close()
    assert taken.samples == []
    assert taken.lost == {gone.uuids[0]}
    assert {gap.reason for gap in taken.gaps} == {"lost"}
