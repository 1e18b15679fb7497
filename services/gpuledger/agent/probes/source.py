"""CUDA events from probes in the kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from gpuledger.agent.pace import MUCH_RATIO
from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.able import available
from gpuledger.agent.probes.attach import AttachedLibrary, LibraryReport, attach_library
from gpuledger.agent.probes.budget import RateBudget
from gpuledger.agent.probes.driver import DriverXid, GpuRegistration
from gpuledger.agent.probes.driver_watch import DriverWatch
from gpuledger.agent.probes.events import DeviceUuid, Losses, RawEvents, Resident
from gpuledger.agent.probes.finder import Finder
from gpuledger.agent.probes.libraries import LibraryFile, LibraryScanner, Mapping, library_file
from gpuledger.agent.probes.loader import TRACEPOINT_PROGRAMS, Loader, LoaderKind
from gpuledger.agent.probes.loading import load as load_kind
from gpuledger.agent.probes.places import NodeLibraries
from gpuledger.agent.probes.ring import MappedRing
from gpuledger.agent.probes.state import KernelState
from gpuledger.agent.probes.symbols import Limits
from gpuledger.agent.probes.tallies import TallyReader
from gpuledger.agent.rules import EVENT_GRACE_NS
from gpuledger.contract.errors import BadRecord, Unsupported

DEFAULT_TALLY_CALLS_PER_S: Final = 50_000
"""Of one process: a trainer makes some thousands; at 50,000 the traps alone take most of a core."""
BUSY_RECORDS: Final = 20_000
"""Of one drain, a second's or less: from then on a ring may fill so soon that it is looked at oftener."""
SWEEP_AFTER_ENDS: Final = 64
"""How many processes end between two sweeps of what they leave: a walk costs some 2 us an entry."""
RELEASE_AFTER_SCANS: Final = 60
"""Refreshes in which nobody has a library, a minute or so, before it is let go; not one attached by name."""


class ProbeSource:
    """`EventSource` over probes in the kernel, loaded as ``loader`` says, or by ``load`` if it is given.

    A process that makes more than ``tally_calls_per_s`` calls is tallied (None: never, 0: always); on a node
    with very many calls in all sooner (`RateBudget`). Libraries at the usual places below ``node_root`` are
    probed before any process has them, and as long as they lie there."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        loader: LoaderKind = LoaderKind.AUTO,
        load: Callable[[Limits], Loader] | None = None,
        scanner: LibraryScanner | None = None,
        tally_calls_per_s: int | None = DEFAULT_TALLY_CALLS_PER_S,
        node_root: Path | None = None,
    ) -> None:
        self._of_node = NodeLibraries(node_root)
        self._limits = limits or Limits()
        self._kind = loader
        self._load = load or partial(load_kind, loader)
        self._finder = Finder(scanner)
        self._loader: Loader | None = None
        self._ring: MappedRing | None = None
        self._state: KernelState | None = None
        self._tallies: TallyReader | None = None
        self._budget = RateBudget(tally_calls_per_s)
        self._records = 0
        self._busy = False
        self._tracepoints: list[int] = []
        self._libraries: dict[tuple[int, int], AttachedLibrary] = {}
        self._refused: dict[tuple[int, int], LibraryReport] = {}
        self._found: dict[tuple[int, int], int] = {}
        self._seen: list[Mapping] = []
        self._swept_ends = 0
        self._driver = DriverWatch()
        self._probes_changed = False

    @property
    def missing(self) -> tuple[str, ...]:
        """See `EventSource`; nothing is."""
        return ()

    @property
    def delay_ns(self) -> int:
        """See `EventSource`."""
        return EVENT_GRACE_NS

    def start(self) -> None:
        """See `EventSource`. Takes a second or two with bcc, which compiles, and a tenth of that without."""
        if self._loader is not None:
            return
        if (reason := available(self._kind)) is not None:
            raise Unsupported(reason)
        self._loader = self._load(self._limits)
        try:
            self._ring = MappedRing(self._loader.map("events"), self._limits.ring_bytes)
            self._state = state = KernelState(self._loader)
            state.set_tally_rate(self._budget.calls_per_s)
            tallies, outstanding = (self._loader.map(name) for name in ("tallies", "outstanding"))
            self._tallies = TallyReader(tallies, outstanding, state.tallied, state.process_ends, state.living)
            for program, tracepoint in TRACEPOINT_PROGRAMS.items():
                fd = bpfsys.attach_raw_tracepoint(self._loader.program(program), tracepoint)
                self._tracepoints.append(fd)
            self._driver.follow()
        except BaseException:
            self.close()
            raise
        self._finder.start()

    def preattach(self, path: str | Path) -> None:
        """See `EventSource`. Raises OSError where the file is not there, BadRecord where it is no library.

        A path is kept as long as the source: unlike a library that was found, it is never let go."""
        file = library_file(path)
        self._seen += self._finder.all()
        self._mark_late({file.key})
        self._attach(file)
        self._found.pop(file.key, None)

    def refresh(self) -> int:
        """See `EventSource`.

        A file that is gone again before it could be probed is nothing; one that the kernel refuses is
        reported by `probes`, and not tried again.
        """
        state = self._started()
        self._seen += self._finder.look()
        attached = self._attach_of_node() + self._attach_seen()
        self._release_unused()
        if self._budget.note(self._records + state.tallied(), time.monotonic_ns()):
            state.set_tally_rate(self._budget.calls_per_s)
        self._driver.follow()
        ends = state.process_ends()
        if ends - self._swept_ends >= SWEEP_AFTER_ENDS:
            self._swept_ends = ends
            state.sweep()
        return attached

    def follow(self, seconds: float) -> bool:
        """See `EventSource`."""
        if (found := self._finder.follow(seconds, often=self._busy)) is None:
            return False
        for mappings in found:
            self._seen += mappings
            if (mappings and self._attach_seen()) or self.filled_ratio > MUCH_RATIO:
                break  # whoever has a file that is probed by now is seen whole: to be said; or much waits
        return True

    def _attach_of_node(self) -> int:
        """Probe the node's own libraries; those that lie there no more are let go like any other."""
        new, gone = self._of_node.look()
        self._found.update(dict.fromkeys(gone, 0))
        if not new:
            return 0
        self._seen += self._finder.all()
        self._mark_late(set(new))
        attached = sum(map(self._attach_found, new.values()))
        self._found = {key: n for key, n in self._found.items() if key not in new or key in self._refused}
        return attached

    def _attach_seen(self) -> int:
        files = [mapping.file for mapping in self._seen]
        new = {file.key for file in files} - self._libraries.keys() - self._refused.keys()
        self._mark_late(new)
        self._seen.clear()
        return sum(self._attach_found(file) for file in files if file.key in new)

    def _mark_late(self, keys: set[tuple[int, int]]) -> None:
        """Whoever has a file before its probes is late, also where only the agent was restarted."""
        for mapping in self._seen:
            if mapping.file.key in keys and mapping.file.key not in self._libraries:
                self._started().mark_late(mapping.pid)

    def _attach_found(self, file: LibraryFile) -> bool:
        if file.key in self._libraries or file.key in self._refused:
            return False
        try:
            self._attach(file)
        except (FileNotFoundError, ProcessLookupError):
            return False
        except (OSError, BadRecord) as error:
            self._refused[file.key] = LibraryReport(file.path, *file.key, (), (), error=str(error))
        self._found[file.key] = 0
        return file.key in self._libraries

    def _release_unused(self) -> None:
        """Lets go of libraries that no process has had for a while: a link holds on to the file's mount, and
        what was refused may be another file by then."""
        used = self._finder.files_in_use()
        for key in list(self._found):
            self._found[key] = 0 if key in used else self._found[key] + 1
            if self._found[key] > RELEASE_AFTER_SCANS:
                del self._found[key]
                self._refused.pop(key, None)
                if key in self._libraries:
                    self._libraries.pop(key).close()

    def _attach(self, file: LibraryFile) -> None:
        state = self._started()
        if self._loader is None:
            raise Unsupported("the event source is not started")
        if file.key in self._libraries:
            return
        with state.attaching():
            self._libraries[file.key] = attach_library(self._loader, file)
        self._probes_changed = True

    @property
    def filled_ratio(self) -> float:
        """See `EventSource`."""
        if self._ring is None or self._ring.reader is None:
            return 0.0
        return self._ring.reader.pending_bytes / self._ring.reader.ring_bytes

    def drain(self) -> RawEvents:
        """See `EventSource`."""
        if self._ring is None or self._ring.reader is None or self._tallies is None:
            raise Unsupported("the event source is not started")
        events = self._ring.reader.drain()
        self._records += len(events)
        self._busy = len(events) > BUSY_RECORDS
        more = [found for found in (self._driver.drain(), self._tallies.read()) if len(found)]
        return np.concatenate([events, *more]) if more else events

    def set_tally_rate(self, calls_per_s: int | None) -> None:
        """From now on: see the constructor."""
        self._budget = RateBudget(calls_per_s)
        self._started().set_tally_rate(calls_per_s)

    def losses(self) -> Losses:
        """See `EventSource`. What the driver's probes lost is in it."""
        losses, driver = self._started().losses(), self._driver.losses()
        return replace(
            losses,
            ring_full=losses.ring_full + driver.ring_full,
            threads_full=losses.threads_full + driver.threads_full,
            return_without_entry=losses.return_without_entry + driver.return_without_entry,
            unreturned=losses.unreturned + driver.unreturned,
        )

    @property
    def probes_changed(self) -> bool:
        """See `EventSource`."""
        return self._probes_changed

    def probes(self) -> list[LibraryReport]:
        """See `EventSource`."""
        self._probes_changed = False
        driver = self._driver.report()
        libraries = (library.report for library in self._libraries.values())
        return [*libraries, *self._refused.values(), *([driver] if driver else [])]

    def resident(self) -> list[Resident]:
        """See `EventSource`."""
        return self._started().resident()

    def device_uuids(self) -> list[DeviceUuid]:
        """See `EventSource`."""
        return self._started().uuids()

    def registrations(self) -> list[GpuRegistration]:
        """See `EventSource`."""
        return self._driver.registrations()

    def xids(self) -> list[DriverXid]:
        """See `EventSource`."""
        return self._driver.xids()

    def gone_cgroups(self) -> list[tuple[int, str]]:
        """(id, path) of the cgroups that were removed since the last call; nothing once it is closed."""
        return [] if self._state is None else self._state.gone_cgroups()

    def not_ready(self) -> int:
        """Cumulative count of queries answered "not ready": polling, of which no record is made."""
        return self._started().not_ready()

    def close(self) -> None:
        """See `EventSource`."""
        for library in self._libraries.values():
            library.close()
        self._libraries.clear()
        self._found.clear()
        self._driver.close()
        self._finder.close()
        for fd in self._tracepoints:
            os.close(fd)
        self._tracepoints.clear()
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._state = self._tallies = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def _started(self) -> KernelState:
        if self._state is None:
            raise Unsupported("the event source is not started")
        return self._state
