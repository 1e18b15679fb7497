"""What was allocated in a context is the process's no longer once the context ends, or is reset."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from gpuledger.agent.kernel_events import agent_events
from gpuledger.agent.probes import UNKNOWN_ORDINAL, LoaderKind, ProbeSource
from gpuledger.agent.resident import ResidentMemory
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import LOADERS, events_of, started
from tests.emulator.control import LIBCUDA, DeviceSpec, Emulator
from tests.emulator.programs import CUDA_PRELUDE

BLOCK, KEPT = 3 << 20, 1 << 20

HELD = """
    free, total = c_size_t(), c_size_t()
    answer = [os.getpid()]
    def held():
        ok(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
        return total.value - free.value
"""
"""Memory is that of the device of the thread's context; the process is its only user."""

CREATED = f"""{HELD}
    home = context(1)
    none = held()
    ok(allocate({KEPT})[0])
    made = c_void_p()
    ok(cuda.cuCtxCreate_v2(byref(made), 0, 1))
    freed = allocate({BLOCK // 3})[1]
    for _ in range(3):
        ok(allocate({BLOCK // 3})[0])
    ok(cuda.cuMemFree_v2(freed))
    answer.append(held() - none)
    ok(cuda.cuCtxDestroy_v2(made))
    assert cuda.cuCtxDestroy_v2(made) != 0
    answer.append(held() - none)
    assert cuda.cuMemFree_v2(freed) != 0
    answer.append(held() - none)
"""
RESET = f"""{HELD}
    context(1)
    none = held()
    ok(allocate({BLOCK})[0])
    answer.append(held() - none)
    ok(cuda.cuDevicePrimaryCtxReset_v2(1))
    answer.append(held() - none)
    ok(allocate({KEPT})[0])
    answer.append(held() - none)
"""
RELEASED = f"""{HELD}
    home, green = context(1), c_void_p()
    none = held()
    ok(cuda.cuDevicePrimaryCtxRetain(byref(home), 1))
    ok(cuda.cuGreenCtxCreate(byref(green), c_void_p(12345), 1, 1))
    ok(allocate({BLOCK})[0])
    ok(cuda.cuDevicePrimaryCtxRelease_v2(1))
    answer.append(held() - none)
    ok(cuda.cuGreenCtxDestroy(green))
    answer.append(held() - none)
    ok(cuda.cuDevicePrimaryCtxRelease_v2(1))
    context(1)
    answer.append(held() - none)
"""
GREEN = f"""{HELD}
    home, green, made = context(1), c_void_p(), c_void_p()
    none = held()
    ok(cuda.cuGreenCtxCreate(byref(green), c_void_p(12345), 1, 1))
    ok(cuda.cuCtxFromGreenCtx(byref(made), green))
    ok(cuda.cuCtxSetCurrent(made))
    freed = allocate({KEPT})[1]
    ok(allocate({BLOCK})[0])
    ok(cuda.cuCtxSetCurrent(home))
    ok(cuda.cuGreenCtxDestroy(green))
    answer.append(held() - none)
    ok(cuda.cuMemFree_v2(freed))
    answer.append(held() - none)
    ok(cuda.cuDevicePrimaryCtxReset(1))
    answer.append(held() - none)
"""
LAST_IS_GREEN = f"""{HELD}
    home, green, made = context(1), c_void_p(), c_void_p()
    none = held()
    ok(cuda.cuGreenCtxCreate(byref(green), c_void_p(12345), 1, 1))
    ok(cuda.cuCtxFromGreenCtx(byref(made), green))
    ok(cuda.cuDevicePrimaryCtxRelease_v2(1))
    ok(cuda.cuCtxSetCurrent(made))
    ok(allocate({BLOCK})[0])
    answer.append(held() - none)
    ok(cuda.cuGreenCtxDestroy(green))
    context(1)
    answer.append(held() - none)
"""


@contextmanager
def running(emulator: Emulator, program: str) -> Iterator[tuple[int, list[int]]]:
    """(pid, what it says) of a program that has done its work and stays."""
    code = f"{CUDA_PRELUDE}\n{textwrap.dedent(program)}\nprint(json.dumps(answer), flush=True)\nos.read(0, 1)"
    process = emulator.spawn_command([sys.executable, "-c", code])
    assert process.stdout is not None
    pid, *used = json.loads(process.stdout.readline())
    try:
        yield pid, used
    finally:
        process.communicate("")


@pytest.mark.parametrize(
    ("program", "held", "freed"),
    [
        (CREATED, [KEPT + BLOCK, KEPT, KEPT], {Operation.DESTROY_CONTEXT: [BLOCK, 0]}),
        (RESET, [BLOCK, 0, KEPT], {Operation.DESTROY_CONTEXT: [BLOCK]}),
        (
            RELEASED,
            [BLOCK, BLOCK, 0],
            {Operation.RELEASE_PRIMARY_CONTEXT: [0, BLOCK], Operation.DESTROY_CONTEXT: [0]},
        ),
        (
            GREEN,
            [BLOCK + KEPT, BLOCK, 0],
            {Operation.DESTROY_CONTEXT: [0, BLOCK], Operation.FREE_DEVICE: [KEPT]},
        ),
        (
            LAST_IS_GREEN,
            [BLOCK, 0],
            {Operation.RELEASE_PRIMARY_CONTEXT: [0], Operation.DESTROY_CONTEXT: [BLOCK]},
        ),
    ],
    ids=["destroyed", "reset", "released", "of a green one", "released by a green one"],
)
def test_what_was_allocated_in_a_context_goes_with_it(
    source: ProbeSource, program: str, held: Sequence[int], freed: dict[Operation, list[int]]
) -> None:
    with Emulator([DeviceSpec(), DeviceSpec()]) as emulator:
        source.preattach(LIBCUDA)
        with running(emulator, program) as (pid, used):
            raw = events_of(source, pid)
            counted = {one.ordinal: one.bytes for one in source.resident() if one.pid == pid}
    assert {1: held[-1]} == counted or (not held[-1] and not any(counted.values()))
    assert used == held, "the driver itself says so"
    for operation, sizes in freed.items():
        assert raw["bytes"][raw["operation"] == operation].tolist() == sizes
    events = agent_events(raw, 0)
    state = ResidentMemory()
    state.apply(events)
    assert sum(size for _, size in state.items()) == held[-1]
    done = np.isin(raw["operation"], list(freed)) & (raw["result"] == 0)
    assert set(raw["ordinal"][done].tolist()) == {1}


def test_of_a_tallied_process_too(source: ProbeSource) -> None:
    """Its sums say how much, and the kernel's own totals what is left."""
    with Emulator([DeviceSpec(), DeviceSpec()]) as emulator:
        source.preattach(LIBCUDA)
        source.set_tally_rate(0)
        with running(emulator, CREATED) as (pid, _):
            raw = events_of(source, pid)
            counted = [one.bytes for one in source.resident() if one.pid == pid]
        source.set_tally_rate(None)
    assert counted == [KEPT]
    ends = raw[raw["operation"] == Operation.DESTROY_CONTEXT]
    assert (ends["count"].sum(), ends["bytes"].sum()) == (2, BLOCK)
    state = ResidentMemory()
    state.apply(agent_events(raw, 0))
    assert sum(size for _, size in state.items()) == KEPT


BEFORE_THE_PROBES = f"""
    answer = [os.getpid()]
    ok(cuda.cuInit(0))
    home = c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(byref(home), 1))
    print(json.dumps(answer), flush=True)
    os.read(0, 1)
    ok(cuda.cuCtxSetCurrent(home))
    early = allocate({KEPT})[1]
    ok(cuda.cuDevicePrimaryCtxRetain(byref(home), 1))
    ok(allocate({BLOCK})[0])
    ok(cuda.cuMemFree_v2(early))
    ok(cuda.cuDevicePrimaryCtxRelease_v2(1))
    ok(cuda.cuDevicePrimaryCtxReset_v2(1))
    print("done", flush=True)
    os.read(0, 1)
"""


@pytest.mark.parametrize("loader", LOADERS)
def test_of_a_context_that_is_known_late_what_it_was_given_since_is_freed(loader: str) -> None:
    """And a release frees nothing: who else retained it before the probes nobody knows."""
    with Emulator([DeviceSpec(), DeviceSpec()]) as emulator, started(loader=LoaderKind(loader)) as source:
        program = f"{CUDA_PRELUDE}\n{textwrap.dedent(BEFORE_THE_PROBES)}"
        process = emulator.spawn_command([sys.executable, "-c", program])
        assert process.stdout is not None
        assert process.stdin is not None
        (pid,) = json.loads(process.stdout.readline())
        source.preattach(LIBCUDA)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        raw = events_of(source, pid)
        counted = {one.ordinal: one.bytes for one in source.resident() if one.pid == pid and one.bytes}
        process.communicate("")
        assert process.returncode == 0
    assert raw["bytes"][raw["operation"] == Operation.RELEASE_PRIMARY_CONTEXT].tolist() == [0]
    assert raw["bytes"][raw["operation"] == Operation.DESTROY_CONTEXT].tolist() == [BLOCK]
    allocated = raw["operation"] == Operation.ALLOCATE_DEVICE
    assert raw["ordinal"][allocated].tolist() == [UNKNOWN_ORDINAL, 1], "it is known from then on"
    assert counted == {}
