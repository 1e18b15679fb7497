"""The capabilities that the agent needs, and how it lets go of all others.

Which these are was found by leaving out one after the other (tests/integration/test_agent_privileges.py);
capabilities(7), and capable() in kernel/bpf, kernel/events and fs/proc of Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_LAST_CAPABILITY: Final = Path("/proc/sys/kernel/cap_last_cap")
_VERSION_3: Final = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words of 32 bits for each set
_CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 24, 38, 47  # linux/prctl.h
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
_SYS_ADMIN: Final = 21


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability, its number in linux/capability.h, and what the agent can not do without it."""

    name: str
    number: int
    without: str
    required: bool = True


NEEDED: Final = (
    Capability("BPF", 39, "load programs and make maps"),
    Capability("PERFMON", 38, "attach probes, and read the kernel's memory in them"),
    Capability(
        "SYS_PTRACE", 19, "look into the /proc entries of other users' processes: what they have mapped"
    ),
    Capability("DAC_READ_SEARCH", 2, "turn cgroup ids into paths; open libraries that others own"),
    Capability(
        "CHECKPOINT_RESTORE", 40, "open libraries that were deleted or replaced while in use", required=False
    ),
)


def effective() -> frozenset[int]:
    """Numbers of the capabilities that this thread can use now."""
    return _set("CapEff")


def missing(held: frozenset[int] | None = None) -> list[Capability]:
    """What is needed and not there. CAP_SYS_ADMIN contains most of it, as before Linux 5.8."""
    have = effective() if held is None else held
    contained = {"BPF", "PERFMON", "CHECKPOINT_RESTORE"} if _SYS_ADMIN in have else set()
    return [one for one in NEEDED if one.number not in have and one.name not in contained]


def keep_only_needed() -> list[str]:
    """Let go of every capability that is not needed, for this process and all that it starts, for good; the
    names of those that are left. What it starts has none of them, unless as `handed_on` says. Call it before
    any other thread is started: each has its own."""
    needed = {one.number for one in NEEDED}
    if not needed <= effective():
        needed.add(_SYS_ADMIN)  # whoever started the agent gave that one, as for kernels before 5.8
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(int(_LAST_CAPABILITY.read_text()) + 1):
        # without CAP_SETPCAP the bounding set is whoever's who started the agent
        if (
            number not in needed
            and libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)
            and ctypes.get_errno() != errno.EPERM
        ):
            _fail("PR_CAPBSET_DROP")
    if libc.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0):
        _fail("PR_CAP_AMBIENT")
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        _fail("PR_SET_NO_NEW_PRIVS")
    kept = _set("CapPrm") & needed
    bits = sum(1 << number for number in kept)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    if libc.capset(struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", low, low, low, high, high, high)):
        _fail("capset")
    names = {one.number: one.name for one in NEEDED} | {_SYS_ADMIN: "SYS_ADMIN"}
    return sorted(names[number] for number in kept)


@contextlib.contextmanager
def handed_on() -> Iterator[None]:
    """What this thread starts meanwhile has the capabilities that `keep_only_needed` left, whoever the user
    is: a program that another than root starts has else none."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in _set("CapInh"):
        libc.prctl(_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0)  # one that is not permitted can not be given
    try:
        yield
    finally:
        libc.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)


def _set(name: str) -> frozenset[int]:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            bits = int(line.split()[1], 16)
            return frozenset(number for number in range(64) if bits >> number & 1)
    return frozenset()


def _fail(what: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, f"{what}: {os.strerror(code)}")
