"""The few system calls by which probes are attached and their maps are read, whoever loaded the programs.

bpf(2), perf_event_open(2) and include/uapi/linux/bpf.h. Attaching is done here rather than by a loader's own
library because a link carries cookies, needs no tracefs, and is undone by closing one descriptor, also when
the file or process it was attached through is gone. Closing waits for the kernel's grace periods, some 50 to
100 ms a link: with multi links that is once for all functions of a library.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.void]

_NUMBERS: Final = {"x86_64": (321, 298), "aarch64": (280, 241)}
"""machine -> (bpf, perf_event_open)"""

_MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT_KEY = 1, 2, 3, 4
_RAW_TRACEPOINT_OPEN, _MAP_LOOKUP_BATCH, _LINK_CREATE = 17, 24, 28
_BATCH_ELEMENTS: Final = 1024
_MAP_POP: Final = 21  # BPF_MAP_LOOKUP_AND_DELETE_ELEM
_ATTACH_PERF_EVENT: Final = 41
ATTACH_UPROBE_MULTI: Final = 48
_MULTI_RETURN: Final = 1
_PERF_FLAG_CLOEXEC: Final = 8
PERF_ATTRIBUTE_BYTES: Final = 112  # PERF_ATTR_SIZE_VER5, known to every kernel that has perf links
_PERF_DEVICES: Final = Path("/sys/bus/event_source/devices")

_libc = ctypes.CDLL(None, use_errno=True)


def _syscall(which: int, *arguments: object) -> int:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"no system call numbers for {machine}")
    result: int = _libc.syscall(_NUMBERS[machine][which], *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _bpf(command: int, attribute: bytes) -> int:
    buffer = ctypes.create_string_buffer(attribute, 128)
    return _syscall(0, command, buffer, 128)


def attach_uprobes(program: int, path: str, places: Sequence[tuple[int, int]], at_return: bool) -> int:
    """Runs ``program`` at each (byte offset in the file, cookie) of ``places``, by one link; else as
    `attach_uprobe`. The program must have been loaded for `ATTACH_UPROBE_MULTI` (kernel 6.6 and later).
    """
    name = ctypes.create_string_buffer(path.encode())
    offsets = (ctypes.c_uint64 * len(places))(*(offset for offset, _ in places))
    cookies = (ctypes.c_uint64 * len(places))(*(cookie for _, cookie in places))
    attribute = struct.pack(
        "=IIIIQQQQIIII",
        program,
        0,
        ATTACH_UPROBE_MULTI,
        0,
        ctypes.addressof(name),
        ctypes.addressof(offsets),
        0,
        ctypes.addressof(cookies),
        len(places),
        _MULTI_RETURN if at_return else 0,
        0,
        0,
    )
    return _bpf(_LINK_CREATE, attribute)


def attach_uprobe(program: int, path: str, offset: int, cookie: int, at_return: bool) -> int:
    """Runs ``program`` whenever the instruction at byte ``offset`` of the file is reached, or, with
    ``at_return``, whenever the function that begins there returns; in every process, also in later ones.

    Returns a descriptor; closing it detaches. Raises OSError as the kernel says.
    """
    return _attach_perf("uprobe", program, path, offset, cookie, at_return)


def attach_kprobe(program: int, function: str, cookie: int, at_return: bool) -> int:
    """Runs ``program`` at the entry of a function of the kernel or a module, or at its return; else as
    `attach_uprobe`."""
    return _attach_perf("kprobe", program, function, 0, cookie, at_return)


def _attach_perf(kind: str, program: int, target: str, offset: int, cookie: int, at_return: bool) -> int:
    name = ctypes.create_string_buffer(target.encode())
    place = _PERF_DEVICES / kind
    config = 1 << int((place / "format" / "retprobe").read_text().split(":")[1]) if at_return else 0
    attribute = struct.pack(
        "=IIQQQQQIIQQ",
        int((place / "type").read_text()),
        PERF_ATTRIBUTE_BYTES,
        config,
        1,
        0,
        0,
        0,
        1,
        0,
        ctypes.addressof(name),
        offset,
    )
    perf = open_perf_event(attribute, cpu=0)
    try:
        return _bpf(_LINK_CREATE, struct.pack("=IIIIQ", program, perf, _ATTACH_PERF_EVENT, 0, cookie))
    finally:
        os.close(perf)


def open_perf_event(attribute: bytes, cpu: int) -> int:
    """A perf event of all processes on a CPU; ``attribute`` is the beginning of a struct perf_event_attr."""
    buffer = ctypes.create_string_buffer(attribute, PERF_ATTRIBUTE_BYTES)
    return _syscall(1, buffer, -1, cpu, -1, _PERF_FLAG_CLOEXEC)


def attach_raw_tracepoint(program: int, name: str) -> int:
    """Runs ``program`` at a kernel tracepoint; returns a descriptor whose closing detaches."""
    text = ctypes.create_string_buffer(name.encode())
    return _bpf(_RAW_TRACEPOINT_OPEN, struct.pack("=QI", ctypes.addressof(text), program))


def cpus_possible() -> int:
    """How many CPUs the kernel may have: the number of values in an element of a per-CPU map."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().split(",")[-1]
    return int(last.split("-")[-1]) + 1


def map_lookup(fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """The value of ``key``, None where there is none. Per-CPU maps: ``value_bytes`` is for all CPUs."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    value = ctypes.create_string_buffer(value_bytes)
    try:
        _bpf(_MAP_LOOKUP, _element(fd, key_buffer, value))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return value.raw


def map_pop(fd: int, value_bytes: int) -> bytes | None:
    """Takes the oldest entry of a queue, None where it is empty."""
    value = ctypes.create_string_buffer(value_bytes)
    try:
        _bpf(_MAP_POP, _element(fd, None, value))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return value.raw


def map_update(fd: int, key: bytes, value: bytes) -> None:
    """Sets ``key`` to ``value``."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    value_buffer = ctypes.create_string_buffer(value, len(value))
    _bpf(_MAP_UPDATE, _element(fd, key_buffer, value_buffer))


def map_delete(fd: int, key: bytes) -> bool:
    """Removes ``key``; says whether it was there."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    try:
        _bpf(_MAP_DELETE, _element(fd, key_buffer, None))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def map_keys(fd: int, key_bytes: int) -> Iterator[bytes]:
    """Every key once. Keys that others delete meanwhile may make the walk begin again: take a set of them."""
    current: ctypes.Array[ctypes.c_char] | None = None
    while True:
        following = ctypes.create_string_buffer(key_bytes)
        try:
            _bpf(_MAP_NEXT_KEY, _element(fd, current, following))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            raise
        yield following.raw
        current = following


def map_batch(fd: int, key: np.dtype[np.void], value: np.dtype[np.void]) -> tuple[Values, Values]:
    """All keys and values of a hash map, by few system calls (BPF_MAP_LOOKUP_BATCH, kernel 5.6 and later).

    Elements that come or go meanwhile are in it or not.
    """
    keys, values = [], []
    size, began = _BATCH_ELEMENTS, False
    token = ctypes.create_string_buffer(8)
    while True:
        key_room, value_room = np.empty(size, key), np.empty(size, value)
        request = ctypes.create_string_buffer(128)
        struct.pack_into(
            "=QQQQIIQQ",
            request,
            0,
            ctypes.addressof(token) if began else 0,
            ctypes.addressof(token),
            key_room.ctypes.data,
            value_room.ctypes.data,
            size,
            fd,
            0,
            0,
        )
        finished = False
        try:
            _syscall(0, _MAP_LOOKUP_BATCH, request, 128)
        except OSError as error:
            if error.errno == errno.ENOSPC:  # a bucket holds more than there was room for
                size *= 2
                continue
            if error.errno != errno.ENOENT:
                raise
            finished = True
        count = struct.unpack_from("=I", request, 32)[0]
        keys.append(key_room[:count])
        values.append(value_room[:count])
        began = True
        if finished:
            return np.concatenate(keys), np.concatenate(values)


def _element(
    fd: int, key: ctypes.Array[ctypes.c_char] | None, value: ctypes.Array[ctypes.c_char] | None
) -> bytes:
    key_at = ctypes.addressof(key) if key is not None else 0
    value_at = ctypes.addressof(value) if value is not None else 0
    return struct.pack("=IIQQQ", fd, 0, key_at, value_at, 0)
