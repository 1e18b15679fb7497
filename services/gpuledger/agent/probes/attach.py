"""Attaches the programs to one library file, and takes them off again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.libraries import LibraryFile
from gpuledger.agent.probes.loader import Loader
from gpuledger.agent.probes.symbols import ENTRY_PROGRAMS, RETURN_PROGRAM, SYMBOLS, Symbol, cookie


@dataclass(frozen=True, slots=True)
class LibraryReport:
    """What is probed in one library file."""

    path: str
    device: int
    inode: int
    attached: tuple[str, ...]
    missing: tuple[str, ...]
    """Probed functions that this library does not export."""
    aliased: tuple[tuple[str, str], ...] = ()
    """(name, the name it is counted as): two names of one function, which is probed once."""
    error: str = ""
    """Why nothing of it could be probed."""


@dataclass(slots=True)
class AttachedLibrary:
    """Owns the descriptors of the links to one library file."""

    report: LibraryReport
    links: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Detaches. Needs neither the file nor any process. May be called twice."""
        for link in self.links:
            os.close(link)
        self.links.clear()


def attach_library(loader: Loader, file: LibraryFile) -> AttachedLibrary:
    """Probes every function of the table that the library exports, entry before return.

    All or nothing: raises OSError as the kernel says, or BadRecord where the file is no library.
    """
    exported = exported_functions(file.path)
    chosen, missing, aliased = choose(exported)
    report = LibraryReport(
        file.path, file.device, file.inode, tuple(s.name for s, _ in chosen), missing, aliased
    )
    library = AttachedLibrary(report)
    try:
        for entry, program in ENTRY_PROGRAMS.items():
            places = [(offset, cookie(symbol)) for symbol, offset in chosen if symbol.entry == entry]
            library.links += _attach(loader, file.path, program, places, at_return=False)
        places = [(offset, cookie(symbol)) for symbol, offset in chosen]
        library.links += _attach(loader, file.path, RETURN_PROGRAM, places, at_return=True)
    except BaseException:
        library.close()
        raise
    return library


def _attach(
    loader: Loader, path: str, program: str, places: list[tuple[int, int]], at_return: bool
) -> Iterator[int]:
    fd = loader.program(program)
    if not loader.multi:
        for offset, value in places:
            yield bpfsys.attach_uprobe(fd, path, offset, value, at_return)
    elif places:
        yield bpfsys.attach_uprobes(fd, path, places, at_return)


def choose(
    exported: dict[str, int],
) -> tuple[list[tuple[Symbol, int]], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(symbols with their offsets, names that are missing, names that share another's offset)."""
    chosen: list[tuple[Symbol, int]] = []
    missing: list[str] = []
    aliased: list[tuple[str, str]] = []
    names: dict[int, str] = {}
    for symbol in SYMBOLS:
        offset = exported.get(symbol.name)
        if offset is None:
            missing.append(symbol.name)
        elif offset in names:
            aliased.append((symbol.name, names[offset]))
        else:
            names[offset] = symbol.name
            chosen.append((symbol, offset))
    return chosen, tuple(missing), tuple(aliased)
