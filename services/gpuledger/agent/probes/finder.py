"""Finds who has which library: told by the kernel where it tells, and by looking through /proc.

A look through /proc costs some 20 us a process. Where the kernel tells of mappings as they are made it is
needed at the start, after records that came too fast, and now and then for CPUs that came online since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from gpuledger.agent import metrics
from gpuledger.agent.probes.libraries import LibraryScanner, Mapping
from gpuledger.agent.probes.mappings import MappingWatch

TOLD_LOOKS: Final = 32
"""Of these looks, one a second or so, /proc is looked through in one where the kernel tells of mappings."""

_log = logging.getLogger(__name__)


class Finder:
    """Mappings of libraries that may be new. Owns what the kernel tells by until `close`. Not thread-safe."""

    def __init__(self, scanner: LibraryScanner | None = None) -> None:
        self._scanner = scanner or LibraryScanner()
        self._watch: MappingWatch | None = None
        self._lost = 0
        self._looks = 0

    def start(self) -> None:
        """Be told by the kernel from now on, where it does."""
        try:
            self._watch = MappingWatch()
        except OSError as error:
            _log.warning("libraries are found by looking each second only: %s", error)

    def all(self) -> list[Mapping]:
        """What processes have that are new, or may have changed, since the last look."""
        return self._scanner.scan()

    def look(self) -> list[Mapping]:
        """Each second: what the kernel told of, and whatever is there where that may be more."""
        looks, self._looks = self._looks, self._looks + 1
        if self._watch is None:
            return self._scanner.scan()
        told = self._scanner.look(self._watch.take())
        lost, self._lost = self._watch.lost - self._lost, self._watch.lost
        metrics.MAPPINGS_LOST.set(self._lost)
        missed, self._watch.may_lack = lost > 0 or self._watch.may_lack, False
        if not missed and looks % TOLD_LOOKS:
            return told
        return told + self._scanner.scan(everything=missed)

    def follow(self, seconds: float, often: bool = False) -> Iterator[list[Mapping]] | None:
        """Lets so much time pass, and gives what processes map as soon as they do, now and then nothing, and
        twenty times a second where it is to be ``often``; None where the kernel does not tell."""
        if self._watch is None:
            return None
        return (self._scanner.look(pids) if pids else [] for pids in self._watch.watch(seconds, often))

    def files_in_use(self) -> set[tuple[int, int]]:
        """See `LibraryScanner.files_in_use`."""
        return self._scanner.files_in_use()

    def close(self) -> None:
        """Gives back what the kernel tells by. May be called twice."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
