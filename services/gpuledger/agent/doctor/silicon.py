"""What tells of the silicon: NVML, and an exporter where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pynvml

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.doctor.report import Check
from gpuledger.agent.nvml import Missing, NvmlSession, ask
from gpuledger.agent.samplers.asking import Asking
from gpuledger.agent.samplers.exporter_http import TOTAL_TIMEOUT_S, Scrape, exporter_url
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import GpuledgerError

NVML_WAIT_S: Final = 10.0  # a driver without persistence takes a second a GPU
DEFAULT_EXPORTER: Final = "http://127.0.0.1:9400/metrics"
_EXPORTER_REMEDIES: Final = {
    "timeout": "it takes the connection and does not answer: see its log, and whether its host engine hangs",
    "unreachable": "nothing that speaks HTTP listens there: see that it runs on this node, and its port",
}
_PROFILED: Final = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"}


def nvml() -> Iterator[Check]:
    """The driver, its devices, and what they tell; that it hangs where it does."""
    answer = Asking("nvml").begin(lambda: list(_nvml()))
    if answer.wait(NVML_WAIT_S):
        yield from answer.result
        return
    remedy = "see dmesg for NVRM and Xid; a driver that hangs needs a reset of the GPU, or a reboot"
    remedy += "; until it answers the agent records calls and processes, and no device"
    yield Check("nvml", False, f"it does not answer within {NVML_WAIT_S:.0f} s", remedy)


def _nvml() -> Iterator[Check]:
    try:
        session = NvmlSession()
    except GpuledgerError as error:
        remedy = "install the NVIDIA driver, or make libnvidia-ml.so.1 visible in the agent's container"
        remedy += "; until then the agent records calls and processes, and no device"
        yield Check("nvml", False, str(error).partition(";")[0], remedy)
        return
    try:
        yield _driver()
        names = ", ".join(sorted({device.model or "?" for device in session.devices}))
        yield Check(
            "nvml",
            bool(session.devices),
            f"{len(session.devices)} devices ({names})",
            "the driver is there and has no device: see dmesg for NVRM and Xid",
        )
        yield from _abilities(session)
    finally:
        session.close()


def _driver() -> Check:
    try:
        version = ask(pynvml.nvmlSystemGetDriverVersion)
    except Missing as missing:
        remedy = "the library and the kernel's module are of two versions: reboot, or load the module anew"
        return Check("driver", False, f"its version is not told ({missing.reason})", remedy, required=False)
    text = version.decode("ascii", "replace") if isinstance(version, bytes) else str(version)
    return Check("driver", True, f"NVIDIA {text}", required=False)


def _abilities(session: NvmlSession) -> Iterator[Check]:
    """GPM and values of single processes, which some devices have and others lack."""
    without = [
        d.model or d.uuid
        for d, handle in zip(session.devices, session.handles, strict=True)
        if not _gpm(handle)
    ]
    some = f"not on {len(without)} of {len(session.devices)} devices" if without else "on every device"
    yield Check(
        "gpm",
        not without,
        f"SM activity from NVML: {some}",
        "only Hopper and newer have it; else run dcgm-exporter with profiling fields and give --dcgm-url",
        required=False,
    )
    blind = [h for h in session.handles if not _tells_processes(h)]
    some = f"not on {len(blind)} of {len(session.handles)} devices" if blind else "on every device"
    yield Check(
        "per process",
        not blind,
        f"utilisation of single processes: {some}",
        "MIG devices have none; shares are then estimated from the calls that the probes see",
        required=False,
    )


def _gpm(handle: Any) -> bool:
    try:
        return bool(ask(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice)
    except Missing:
        return False


def _tells_processes(handle: Any) -> bool:
    try:
        ask(pynvml.nvmlDeviceGetProcessUtilization, handle, 0)
    except Missing as missing:
        return missing.reason in ("not_found", "no_data")  # nobody is busy
    return True


def exporter(url: str | None, clock: Clock) -> Iterator[Check]:
    """What a dcgm-exporter shows; one that was not asked for is looked for at its usual port."""
    asked = url is not None  # then it is required
    remedy = "needed only where NVML has no profiling values: run dcgm-exporter and give its --dcgm-url"
    place = url or DEFAULT_EXPORTER
    scrape = Scrape(exporter_url(place), clock)
    try:
        text = scrape.text(TOTAL_TIMEOUT_S)
        if text is None:
            raise Missing("timeout")
    except Missing as missing:
        if asked:
            remedy = _EXPORTER_REMEDIES.get(missing.reason, "see its log: is that a dcgm-exporter's address?")
        yield Check("exporter", False, f"{place}: {missing.reason}", remedy, required=asked)
        return
    finally:
        scrape.abandon()
    found = parse_exposition(text)
    lacking = _PROFILED - {sample.field for sample in found.samples}
    detail = f"{place}: {len(found.samples)} values, {found.skipped_lines} lines not understood"
    remedy = "it shows no field of DCGM: see its log, and the list of counters that it was given (-f)"
    yield Check("exporter", bool(found.samples), detail, remedy, required=asked)
    if found.samples:
        yield Check(
            "profiling",
            not lacking,
            "the exporter has SM and engine activity"
            if not lacking
            else f"it lacks {', '.join(sorted(lacking))}",
            "add them to the exporter's list of counters; SM active is not among its defaults",
            required=False,
        )
