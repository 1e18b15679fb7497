"""What the agent takes CUDA events from, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.driver import DriverXid, GpuRegistration
from gpuledger.agent.probes.events import DeviceUuid, Losses, RawEvents, Resident


class EventSource(Protocol):
    """A stream of calls into the CUDA driver. One thread uses it; it owns what it opened until `close`."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns of `RAW_EVENT` that it can not fill: nobody's work is seen whole then."""

    @property
    def delay_ns(self) -> int:
        """How long after it returned a call may still be handed over."""

    def start(self) -> None:
        """Begins to observe. Raises Unsupported where this machine can not."""

    def preattach(self, path: str | Path) -> None:
        """Probes a library file before any process has it, so that short-lived processes are seen whole."""

    def refresh(self) -> int:
        """Each second: probes libraries that processes have mapped since; returns how many files are new."""

    def follow(self, seconds: float) -> bool:
        """Lets so much time pass, less where that probes a file or much waits, and probes at once what
        processes map meanwhile. False where it can not; no time has passed then."""

    @property
    def filled_ratio(self) -> float:
        """How full the place is where calls wait for `drain`, 0 to 1; what comes when it is full is lost."""

    def drain(self) -> RawEvents:
        """All calls that returned since the last drain, in the order of the ring; then tallies, and runs of
        outstanding work, of the processes that call so often that they are tallied.

        Each thread's are in time order; between threads it may differ by microseconds, rarely by the time for
        which a thread was preempted.
        """

    def losses(self) -> Losses:
        """Cumulative counts of what was left out since the start."""

    @property
    def probes_changed(self) -> bool:
        """Whether files were probed since `probes` was asked last: who has them is witnessed from now on."""

    def probes(self) -> list[LibraryReport]:
        """What is probed, for each library file."""

    def resident(self) -> list[Resident]:
        """Device memory that each living process has allocated, exact whatever the ring lost."""

    def device_uuids(self) -> list[DeviceUuid]:
        """What processes were told of their devices (cuDeviceGetUuid); of those that have ended once."""

    def registrations(self) -> list[GpuRegistration]:
        """Which devices processes registered with the driver, where that is probed; of the ended once."""

    def xids(self) -> list[DriverXid]:
        """Errors that the driver has reported since the last call."""

    def close(self) -> None:
        """Detaches everything. May be called twice."""
