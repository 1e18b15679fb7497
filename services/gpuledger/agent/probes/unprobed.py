"""What every source of calls has in common that probes nothing itself."""

from __future__ import annotations

from pathlib import Path

from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.driver import DriverXid, GpuRegistration
from gpuledger.agent.probes.events import DeviceUuid


class Unprobed:
    """The part of an `EventSource` that speaks of probes: there are none, neither in libraries nor in the
    driver."""

    def preattach(self, path: str | Path) -> None:
        """See `EventSource.preattach`."""

    def refresh(self) -> int:
        """See `EventSource.refresh`; nothing new ever comes."""
        return 0

    def follow(self, seconds: float) -> bool:
        """See `EventSource.follow`; it attaches to nothing."""
        return False

    @property
    def probes_changed(self) -> bool:
        """See `EventSource.probes_changed`."""
        return False

    @property
    def filled_ratio(self) -> float:
        """See `EventSource.filled_ratio`; no ring waits to be drained."""
        return 0.0

    def probes(self) -> list[LibraryReport]:
        """See `EventSource.probes`."""
        return []

    def device_uuids(self) -> list[DeviceUuid]:
        """See `EventSource.device_uuids`; answers are not seen."""
        return []

    def registrations(self) -> list[GpuRegistration]:
        """See `EventSource.registrations`; the driver is not watched."""
        return []

    def xids(self) -> list[DriverXid]:
        """See `EventSource.xids`; the driver is not watched."""
        return []
