"""Keeps the probes on the NVIDIA driver while it comes, goes and comes back in another version."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.driver import DriverLosses, DriverProbes, DriverXid, GpuRegistration
from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.contract.errors import Unsupported

MODULES: Final = Path("/sys/module")
DRIVER: Final = "nvidia"
UVM: Final = "nvidia_uvm"


class DriverWatch:
    """Attaches when the driver's modules are loaded, lets go when they are not. Not thread-safe.

    ``modules`` is a directory with an entry for each loaded module.
    """

    def __init__(self, modules: Path = MODULES) -> None:
        self._modules = modules
        self._probes: DriverProbes | None = None
        self._loaded: tuple[bool, bool] = (False, False)
        self._report: LibraryReport | None = None
        self._lost = DriverLosses()

    def follow(self) -> None:
        """Call it each second: two looks at a directory, unless something has changed. Never raises for a
        driver that can not be probed: `report` says so."""
        loaded = (self._modules / DRIVER).is_dir(), (self._modules / UVM).is_dir()
        if loaded == self._loaded:
            return
        self._loaded = loaded
        self._let_go()
        if not loaded[0]:
            return
        probes = DriverProbes()
        try:
            said = probes.start()
        except (Unsupported, OSError) as error:
            self._report = LibraryReport(DRIVER, 0, 0, (), (), error=str(error))
            return
        self._probes = probes
        self._report = LibraryReport(DRIVER, 0, 0, said.attached, said.missing)

    def drain(self) -> RawEvents:
        """Calls that returned since the last drain (`DriverProbes.drain`); none where nothing is attached."""
        return np.empty(0, RAW_EVENT) if self._probes is None else self._probes.drain()

    def losses(self) -> DriverLosses:
        """Cumulative over all versions of the driver so far."""
        return self._lost if self._probes is None else self._lost.plus(self._probes.losses())

    def registrations(self) -> list[GpuRegistration]:
        """Which devices living processes have registered with the driver."""
        return [] if self._probes is None else self._probes.registrations()

    def xids(self) -> list[DriverXid]:
        """Errors that the driver has reported since the last call."""
        return [] if self._probes is None else self._probes.xids()

    def report(self) -> LibraryReport | None:
        """What is probed of the driver, or why nothing is; None where no driver is loaded."""
        return self._report

    def _let_go(self) -> None:
        if self._probes is not None:
            self._lost = self._lost.plus(self._probes.losses())
            self._probes.close()
        self._probes = self._report = None

    def close(self) -> None:
        """Detaches. May be called twice."""
        self._let_go()
        self._loaded = (False, False)
