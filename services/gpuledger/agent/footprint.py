"""Gives back memory that only the start needed: freed heap, and pages of files that were read once.

The pages are those of libraries and of the interpreter that ran while everything was imported. They lie in
the kernel's cache whatever we do; a process that maps them without using them only counts them as its own.
One that is used again comes back by itself, as any page of a file does at its first use.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

SETTLED_S: Final = 20.0  # the schemas are registered, the first libraries probed, the first windows sent
TRIM_S: Final = 15.0  # a trim takes a millisecond or two
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


def trim() -> None:
    """Give back freed heap, which glibc keeps unless asked: a burst of calls leaves tens of MB behind."""
    give = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if give is not None:
        give(0)


def give_back() -> None:
    """What only the start needed, now; takes some milliseconds."""
    trim()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with Path("/proc/self/smaps").open() as smaps:
        for start, length in list(clean_ranges(smaps)):
            libc.madvise(start, length, _DONT_NEED)  # what is unmapped meanwhile is refused, and that is fine


class Keeper:
    """A thread that keeps the process small: it gives back once it has settled, and trims ever after."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="footprint", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if self._stop.wait(SETTLED_S):
            return
        give_back()
        while not self._stop.wait(TRIM_S):
            trim()
