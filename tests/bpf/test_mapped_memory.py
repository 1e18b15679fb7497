"""Physical memory is the process's until nothing holds it: neither a handle nor a mapping."""

from __future__ import annotations

from gpuledger.agent.events import Events
from gpuledger.agent.kernel_events import agent_events
from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.resident import ResidentMemory
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import events_of
from tests.emulator.control import LIBCUDA, Emulator
from tests.emulator.programs import CUDA_PRELUDE, run_python

PARTS, PART_BYTES = 7, 2 << 20

POOL = f"""
    PARTS, PART_BYTES = {PARTS}, {PART_BYTES}
    context()
    free, total, begin = c_size_t(), c_size_t(), c_uint64()
    def used():
        ok(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
        return total.value - free.value
    before, answer = used(), [os.getpid()]
    ok(cuda.cuMemAddressReserve(byref(begin), c_size_t(PARTS * PART_BYTES), 0, 0, c_uint64(0)))
    on_device = (c_uint32 * 8)(1, 0, 1, 0, 0, 0, 0, 0)
    for number in range(PARTS):
        handle = c_uint64()
        ok(cuda.cuMemCreate(byref(handle), c_size_t(PART_BYTES), on_device, c_uint64(0)))
        place = c_uint64(begin.value + number * PART_BYTES)
        ok(cuda.cuMemMap(place, c_size_t(PART_BYTES), c_size_t(0), handle, c_uint64(0)))
        ok(cuda.cuMemRelease(handle))
    answer.append(used() - before)
    ok(cuda.cuMemUnmap(begin, c_size_t((PARTS - 1) * PART_BYTES)))
    answer.append(used() - before)
    ok(cuda.cuMemUnmap(c_uint64(begin.value + (PARTS - 1) * PART_BYTES), c_size_t(PART_BYTES)))
    answer.append(used() - before)
"""


def test_memory_whose_handle_is_released_when_it_is_mapped_is_held_until_it_is_unmapped(
    source: ProbeSource,
) -> None:
    """As pools do that grow in parts and are given back whole."""
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        pid, *used = run_python(emulator, CUDA_PRELUDE, POOL)
        events = agent_events(events_of(source, pid), 0)
    assert used == [PARTS * PART_BYTES, PART_BYTES, 0]
    frees = events[events["operation"] == Operation.FREE_PHYSICAL]
    assert frees["bytes"].tolist() == [0] * PARTS + [(PARTS - 1) * PART_BYTES, PART_BYTES]
    maps = events[events["operation"] == Operation.MAP_MEMORY]
    assert maps["bytes"].tolist() == [PART_BYTES] * PARTS
    assert [resident(events[: len(events) - left]) for left in (2, 1, 0)] == used


def resident(events: Events) -> int:
    state = ResidentMemory()
    state.apply(events)
    return sum(size for _, size in state.items())
