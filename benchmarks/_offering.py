"""Calls that nobody makes: processes for which the kernel tells of calls at a rate, without a trap.

What runs is benchmarks/ring_offer.bpf.c: all that is behind a probe. Its maps are its own, or those of an
agent that runs: then that agent takes the calls, as it takes any.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.compile import compile_object

OFFER = Path(__file__).with_name("ring_offer.bpf.c")
MAPS = (
    *(
        "events",
        "losses",
        "settled_ns",
        "blank_thread",
        "threads",
        "processes",
        "late",
        "contexts",
        "resident",
    ),
    *("uuids", "allocations", "rates", "tallies", "outstanding", "gone_cgroup", "gone_cgroups"),
)
_GET_FD_BY_ID, _GET_INFO = 14, 15  # BPF_MAP_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD
_INFO_BYTES, _NAME_AT, _NAME_BYTES = 88, 24, 16  # struct bpf_map_info

OFFERING = """
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
int main(int count, char **arguments)
{
    int program = atoi(arguments[1]);
    double rate = atof(arguments[2]), length = atof(arguments[3]), passed, began;
    long made = 0, due;
    getchar();
    for (began = seconds(); (passed = seconds() - began) < length; usleep(5000))
        for (due = rate * passed - made; due > 0; due = rate * passed - made) {
            unsigned long long calls[12] = {due < 1000 ? due : 1000}; /* a fraction of a millisecond */
            union bpf_attr run = {0};
            run.test.prog_fd = program;
            run.test.ctx_in = (unsigned long)calls;
            run.test.ctx_size_in = sizeof(calls);
            if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &run, sizeof(run)) < 0)
                return 1;
            made += calls[0];
        }
    printf("%ld %f\\n", made + 0L * count, seconds() - began);
    return 0;
}
"""


def build(directory: Path) -> tuple[Path, Path]:
    """(the program that offers, the object of the probes with what it runs)."""
    text, program, object_ = (directory / name for name in ("offering.c", "offering", "offer.bpf.o"))
    text.write_text(OFFERING)
    subprocess.run(["cc", "-O2", "-o", program, text], check=True)
    compile_object(object_, str(OFFER))
    return program, object_


class Maps:
    """Descriptors of our own of maps that are in the kernel."""

    multi = True
    offer = -1
    """The program over them that offers."""

    def __init__(self, found: dict[str, int]) -> None:
        self._found = found

    def map(self, name: str) -> int:
        """The descriptor of the map of that name. Raises KeyError."""
        return self._found[name]

    def program(self, name: str) -> int:
        """There are none."""
        raise KeyError(name)

    def close(self) -> None:
        """Let go of them."""
        for fd in self._found.values():
            os.close(fd)
        self._found = {}


def maps_of(pid: int) -> Maps:
    """The maps that a process has open."""
    found = {}
    for entry in Path("/proc", str(pid), "fdinfo").iterdir():
        try:
            text = entry.read_text()
        except FileNotFoundError:  # it has closed it
            continue
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if "map_id" in fields:
            fd = bpfsys._bpf(_GET_FD_BY_ID, struct.pack("=III", int(fields["map_id"]), 0, 0))
            info = ctypes.create_string_buffer(_INFO_BYTES)
            bpfsys._bpf(_GET_INFO, struct.pack("=IIQ", fd, _INFO_BYTES, ctypes.addressof(info)))
            found[info.raw[_NAME_AT : _NAME_AT + _NAME_BYTES].rstrip(b"\0").decode()] = fd
    return Maps(found)


def program_over(object_: Path, maps: Maps) -> int:
    """The descriptor of ``offer`` of that object, loaded over maps that are there already."""
    api = ctypes.CDLL("libbpf.so.1", use_errno=True)
    for name in ("open_file", "find_map_by_name", "find_program_by_name"):
        getattr(api, f"bpf_object__{name}").restype = ctypes.c_void_p
    opened = ctypes.c_void_p(api.bpf_object__open_file(str(object_).encode(), None))
    for name in MAPS:
        place = ctypes.c_void_p(api.bpf_object__find_map_by_name(opened, name.encode()))
        if api.bpf_map__reuse_fd(place, maps.map(name)):
            raise SystemExit(f"the agent's map {name} can not be taken: {os.strerror(ctypes.get_errno())}")
    if api.bpf_object__load(opened):
        raise SystemExit(f"the kernel refuses the offer: {os.strerror(ctypes.get_errno())}")
    program = ctypes.c_void_p(api.bpf_object__find_program_by_name(opened, b"offer"))
    return int(api.bpf_program__fd(program))


def start(
    program: Path, fd: int, calls_per_s: float, seconds: float, processes: int
) -> list[subprocess.Popen[str]]:
    """Processes that share the rate, and wait for `go`."""
    command = [str(program), str(fd), str(calls_per_s / max(processes, 1)), str(seconds)]
    pipe = subprocess.PIPE
    return [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, pass_fds=[fd]) for _ in range(processes)
    ]


def go(offering: Sequence[subprocess.Popen[str]]) -> None:
    """Let them begin."""
    for process in offering:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def made(offering: Sequence[subprocess.Popen[str]]) -> tuple[int, float]:
    """(calls of all, seconds that they took), once they have ended."""
    told = [process.communicate()[0].split() for process in offering]
    return sum(int(one[0]) for one in told), max((float(one[1]) for one in told), default=0.0)
