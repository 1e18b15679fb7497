"""Gives back memory that only the start needed: freed heap, and pages of files that were read once.

The pages are those of libraries and of the interpreter that ran while everything was imported. They lie in
the kernel's cache whatever we do; a process that maps them without using them only counts them as its own.
One that is used again comes back by itself, as any page of a file does at its first use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_DONT_NEED: Final = 4  # MADV_DONTNEED, asm-generic/mman-common.h


class Range(NamedTuple):
    """Pages of a file, mapped read-only and never written."""

    start: int
    length: int


def clean_ranges(smaps: Iterable[str]) -> Iterator[Range]:
    """The mappings in the text of /proc/PID/smaps that can be let go of without a loss: of a file, private,
    not writable, and without one page of their own (as relocation or a breakpoint leaves behind)."""
    current: Range | None = None
    for line in smaps:
        words = line.split()
        if not words[0].endswith(":"):
            current = None
            if len(words) > 5 and words[5].startswith("/") and words[1] in ("r--p", "r-xp"):
                start, end = (int(side, 16) for side in words[0].split("-"))
                current = Range(start, end - start)
        elif words[0] == "Anonymous:" and current is not None and words[1] == "0":
            yield current


def give_back() -> None:
    """Do it now; takes some milliseconds."""
    libc = ctypes.CDLL(None, use_errno=True)
    trim = getattr(libc, "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with Path("/proc/self/smaps").open() as smaps:
        for start, length in list(clean_ranges(smaps)):
            libc.madvise(start, length, _DONT_NEED)  # what is unmapped meanwhile is refused, and that is fine
