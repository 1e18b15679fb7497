"""What `workload count` calls: the table that its report, and any probe on libcuda, must agree with."""

from __future__ import annotations

from dataclasses import dataclass

MORE_THAN_ANY_DEVICE = 1 << 50
THREADS_PER_LAUNCH = 4 * 64


@dataclass(frozen=True)
class Calls:
    """Calls of one symbol: how many succeeded and failed, with bytes asked for and GPU threads launched."""

    ok: int
    failed: int = 0
    bytes_ok: int = 0
    bytes_failed: int = 0
    threads_launched: int = 0

    @property
    def calls(self) -> int:
        """Calls with any result."""
        return self.ok + self.failed


def _launches(ok: int, failed: int = 0) -> Calls:
    return Calls(ok, failed, threads_launched=ok * THREADS_PER_LAUNCH)


PER_PROCESS = {
    "cuInit": Calls(1),
    "cuDeviceGet": Calls(1),
    "cuDevicePrimaryCtxRetain": Calls(1),
    "cuDevicePrimaryCtxRelease_v2": Calls(1),
}
PER_THREAD = {
    "cuCtxSetCurrent": Calls(1),
    "cuMemAlloc_v2": Calls(1, bytes_ok=65537),
    "cuMemFree_v2": Calls(1),
}
PER_ROUND = {
    # 3 ask for too much (2, OUT_OF_MEMORY) and 1 for nothing (1, INVALID_VALUE)
    "cuMemAlloc_v2": Calls(6, 4, 6 * 1000003, 3 * MORE_THAN_ANY_DEVICE),
    "cuMemAllocManaged": Calls(3, bytes_ok=3 * 500009),
    "cuMemAllocAsync": Calls(5, bytes_ok=5 * 300007),
    "cuMemAllocAsync_ptsz": Calls(2, bytes_ok=2 * 300007),
    "cuMemFree_v2": Calls(9, 1),  # 3 of them managed; the failed one is no address (1, INVALID_VALUE)
    "cuMemFreeAsync": Calls(5),
    "cuMemFreeAsync_ptsz": Calls(2),
    "cuMemcpyHtoD_v2": Calls(13, 4, 13 * 4099, 4 * 4099),  # to no address (1, INVALID_VALUE)
    "cuMemcpyDtoH_v2": Calls(11, bytes_ok=11 * 8209),
    "cuMemcpyDtoD_v2": Calls(5, bytes_ok=5 * 16411),
    "cuMemcpyHtoDAsync_v2": Calls(17, bytes_ok=17 * 2053),
    "cuMemcpyDtoHAsync_v2": Calls(19, bytes_ok=19 * 1031),
    "cuMemcpyDtoDAsync_v2": Calls(7, bytes_ok=7 * 32771),
    "cuLaunchKernel": _launches(23, 6),  # 6 without blocks (1, INVALID_VALUE)
    "cuLaunchKernel_ptsz": _launches(7),
    "cuLaunchKernelEx": _launches(13),
    "cuLaunchKernelEx_ptsz": _launches(3),
    "cuLaunchCooperativeKernel": _launches(5),
    "cuStreamCreate": Calls(2),
    "cuStreamDestroy_v2": Calls(2),
    "cuStreamSynchronize": Calls(5),
    "cuStreamQuery": Calls(7),
    "cuCtxSynchronize": Calls(3),
    "cuEventCreate": Calls(2),
    "cuEventRecord": Calls(3),
    "cuEventSynchronize": Calls(2),
    "cuEventQuery": Calls(5),
    "cuEventDestroy_v2": Calls(2, 1),  # the failed one was destroyed already (400, INVALID_HANDLE)
    "cuCtxPushCurrent_v2": Calls(2),
    "cuCtxPopCurrent_v2": Calls(2),
}


def _times(calls: Calls, factor: int) -> Calls:
    return Calls(
        calls.ok * factor,
        calls.failed * factor,
        calls.bytes_ok * factor,
        calls.bytes_failed * factor,
        calls.threads_launched * factor,
    )


def _plus(a: Calls, b: Calls) -> Calls:
    return Calls(
        a.ok + b.ok,
        a.failed + b.failed,
        a.bytes_ok + b.bytes_ok,
        a.bytes_failed + b.bytes_failed,
        a.threads_launched + b.threads_launched,
    )


def counted_calls(rounds: int = 1, host_threads: int = 1, via_proc_address: bool = False) -> dict[str, Calls]:
    """Calls by exported symbol of `workload count --rounds R --host-threads T`."""
    total = dict(PER_PROCESS)
    if via_proc_address:
        total["cuGetProcAddress_v2"] = Calls(len(PER_ROUND.keys() | PER_THREAD.keys()))
    for table, factor in ((PER_THREAD, host_threads), (PER_ROUND, host_threads * rounds)):
        for symbol, calls in table.items():
            total[symbol] = _plus(total.get(symbol, Calls(0)), _times(calls, factor))
    return total
