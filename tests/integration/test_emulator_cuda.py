"""The emulated libcuda: what a CUDA program meets at the C ABI."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulator import LIBCUDA, DeviceSpec, Emulator, counted_calls
from tests.emulator.programs import CUDA_PRELUDE, run_python


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator([DeviceSpec(context_bytes=0)] * 3) as running:
        yield running


def run(emulator: Emulator, code: str, visible_devices: str | None = None) -> Any:
    return run_python(emulator, CUDA_PRELUDE, code, visible_devices)


def test_launches_return_at_once_and_synchronise_blocks_until_the_work_is_done(emulator: Emulator) -> None:
    code = """
    context()
    start = time.monotonic()
    for _ in range(20):
        launch(25000)
    ok(cuda.cuStreamSynchronize(None))
    waited_s, synchronised = time.monotonic() - start, cuda.cuStreamQuery(None)
    launch(100_000_000)
    answer = cuda.cuStreamQuery(None), synchronised, waited_s
    """
    launched, synchronised, waited_s = run(emulator, code)
    assert (launched, synchronised) == (600, 0)
    assert waited_s >= 0.5


def test_a_launch_blocks_when_1024_are_in_flight(emulator: Emulator) -> None:
    code = """
    context()
    start = time.monotonic()
    for _ in range(1024):
        launch(1000)
    for _ in range(1024):
        launch(1000)
    answer = time.monotonic() - start
    """
    launched_s = run(emulator, code)
    assert launched_s >= 1.0, "the second 1024 waited for the first"


def test_an_event_waits_for_the_launches_before_it_and_not_for_those_after(emulator: Emulator) -> None:
    code = """
    context()
    events = [c_void_p(), c_void_p()]
    for event in events:
        ok(cuda.cuEventCreate(byref(event), 0))
    start = time.monotonic()
    launch(200_000)
    ok(cuda.cuEventRecord(events[0], None))
    launch(100_000_000)
    ok(cuda.cuEventRecord(events[1], None))
    ok(cuda.cuEventSynchronize(events[0]))
    waited = time.monotonic() - start
    answer = [cuda.cuEventQuery(event) for event in events], cuda.cuStreamQuery(None), waited
    """
    queries, stream, waited_s = run(emulator, code)
    assert (queries, stream) == ([0, 600], 600)
    assert waited_s >= 0.2


def test_a_stream_is_ready_whatever_another_one_copies(emulator: Emulator) -> None:
    code = """
    context()
    streams = [c_void_p(), c_void_p()]
    for stream in streams:
        ok(cuda.cuStreamCreate(byref(stream), 0))
    _, address = allocate(1 << 30)
    host, size = ctypes.create_string_buffer(1), c_size_t(1 << 30)  # 90 ms; no byte of it is read
    start = time.monotonic()
    ok(cuda.cuMemcpyHtoDAsync_v2(address, host, size, streams[0]))
    ok(cuda.cuStreamSynchronize(streams[0]))
    copied_s = time.monotonic() - start
    for _ in range(500):  # 45 s, which nobody waits for
        ok(cuda.cuMemcpyHtoDAsync_v2(address, host, size, streams[0]))
    answer = [cuda.cuStreamQuery(stream) for stream in streams], copied_s
    """
    queries, copied_s = run(emulator, code)
    assert queries == [600, 0]
    assert copied_s >= 0.089


def test_memory_runs_out_and_comes_back(emulator: Emulator) -> None:
    code = """
    context()
    free, total = c_size_t(), c_size_t()
    ok(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    whole, address = allocate(total.value)
    full, _ = allocate(1)
    wrong = cuda.cuMemFree_v2(c_uint64(address.value + 1))
    freed = cuda.cuMemFree_v2(address)
    twice = cuda.cuMemFree_v2(address)
    again, _ = allocate(total.value)
    answer = whole, full, wrong, freed, twice, again
    """
    assert run(emulator, code) == [0, 2, 1, 0, 1, 0]


def test_a_destroyed_context_gives_back_its_memory_and_is_refused(emulator: Emulator) -> None:
    code = """
    keep = context(1)
    made = c_void_p()
    ok(cuda.cuCtxCreate_v2(byref(made), 0, 1))
    ok(allocate(1 << 30)[0])
    free, total = c_size_t(), c_size_t()
    ok(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    used_before = total.value - free.value
    ok(cuda.cuCtxDestroy_v2(made))
    current = c_void_p()
    ok(cuda.cuCtxGetCurrent(byref(current)))
    ok(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    answer = used_before, total.value - free.value, current.value == keep.value, cuda.cuCtxSetCurrent(made)
    """
    assert run(emulator, code) == [1 << 30, 0, True, 709]


def test_a_child_of_fork_starts_without_context(emulator: Emulator) -> None:
    code = """
    context()
    ok(allocate(4096)[0])
    reader, writer = os.pipe()
    if os.fork() == 0:
        before = cuda.cuCtxSynchronize()
        context()
        launch(1000)
        after = cuda.cuCtxSynchronize()
        os.write(writer, json.dumps([before, after]).encode())
        os._exit(0)
    os.wait()
    answer = json.loads(os.read(reader, 100)) + [cuda.cuCtxSynchronize()]
    """
    assert run(emulator, code) == [3, 0, 0]


def test_calls_before_cuinit_are_refused(emulator: Emulator) -> None:
    assert run(emulator, "n = c_int(); answer = cuda.cuDeviceGetCount(byref(n)), allocate(1)[0]") == [3, 3]


VISIBLE = """
result, n, uuids = cuda.cuInit(0), c_int(), []
if result == 0:
    ok(cuda.cuDeviceGetCount(byref(n)))
for i in range(n.value):
    uuid = (ctypes.c_ubyte * 16)()
    ok(cuda.cuDeviceGetUuid_v2(uuid, i))
    uuids.append(bytes(uuid).hex())
answer = uuids
"""


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2]),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 2 , 1", [2, 1]),
        ("0,7,1", [0]),
        ("1,-1,0", [1]),
        ("1,x", [1]),
        ("", []),
        ("0,0", []),
        ("{2}", [2]),
        ("{1:12},0", [1, 0]),
        ("GPU-,0", []),
        ("GPU-00000000,0", []),
    ],
)
def test_cuda_visible_devices_selects_and_is_cut_at_the_first_invalid_item(
    emulator: Emulator, visible: str | None, expected: list[int]
) -> None:
    uuids = emulator.uuids
    if visible is not None:
        visible = visible.replace("{2}", uuids[2]).replace("{1:12}", uuids[1][:12])
    hexes = [uuid.removeprefix("GPU-").replace("-", "") for uuid in uuids]
    assert run(emulator, VISIBLE, visible) == [hexes[i] for i in expected]


@pytest.mark.parametrize("via_proc_address", [False, True])
def test_the_count_workload_calls_exactly_what_its_table_says(
    emulator: Emulator, via_proc_address: bool
) -> None:
    arguments = ["count", "--rounds", "2", "--host-threads", "3", "--wait"]
    counting = emulator.spawn(arguments + ["--via-proc-address"] * via_proc_address)
    out, _ = counting.communicate("go\n")
    assert counting.returncode == 0
    calls = json.loads(out)["calls"]
    expected = counted_calls(2, 3, via_proc_address)
    assert calls.keys() == expected.keys()
    for symbol, want in expected.items():
        assert calls[symbol] == {"calls": want.calls, **vars(want)}, symbol


def test_cu_get_proc_address_hands_out_the_exported_functions(emulator: Emulator) -> None:
    code = """
    def found(name, flags=0):
        address, status = c_void_p(), c_int()
        arguments = name.encode(), byref(address), 12040, c_uint64(flags), byref(status)
        return cuda.cuGetProcAddress_v2(*arguments), status.value, address.value

    def exported(name):
        return ctypes.cast(getattr(cuda, name), c_void_p).value

    answer = [
        found("cuMemAlloc") == (0, 0, exported("cuMemAlloc_v2")),
        found("cuLaunchKernel") == (0, 0, exported("cuLaunchKernel")),
        found("cuLaunchKernel", 2) == (0, 0, exported("cuLaunchKernel_ptsz")),
        found("cuNoSuchThing") == (500, 1, None),
    ]
    """
    assert run(emulator, code) == [True, True, True, True]


@pytest.mark.parametrize(("library", "prefix"), [("libcuda.so.1", "cu"), ("libnvidia-ml.so.1", "nvml")])
def test_exported_functions_have_an_address_each_and_nothing_else_is_exported(
    emulator: Emulator, library: str, prefix: str
) -> None:
    command = ["nm", "-D", "--defined-only", str(LIBCUDA.with_name(library))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split() for line in lines]
    assert len(symbols) > 20
    assert all(kind == "T" and name.startswith(prefix) for _, kind, name in symbols)
    assert len({address for address, _, _ in symbols}) == len(symbols)
