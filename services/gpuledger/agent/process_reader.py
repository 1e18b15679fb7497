"""What is asked of a machine about its processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What the kernel and /proc say of a living process. ``start_ns`` is the boot clock, cut to a tick."""

    start_ns: int
    cgroup_id: int
    name: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    minors: frozenset[int] = frozenset()
    """Device nodes that it can see."""
    opened: frozenset[int] = frozenset()
    """Device nodes that it has open; of either the minor numbers."""
    program: str = ""
    """Name of the file that it runs, as the kernel has it; ``name`` is what it calls itself."""
    cgroup1_paths: tuple[str, ...] = ()
    """Where it is in hierarchies of cgroup v1 beside that of v2."""


class ProcessReader(Protocol):
    """Where facts about processes come from. Used by the agent's loop alone."""

    tick_ns: int
    """Grain of start times: two starts within one tick are the same."""

    def look(self, pid: int) -> ProcessFacts | None:
        """The process of that pid now; None where it is gone."""

    def cgroup_path(self, cgroup_id: int) -> str | None:
        """Path of a cgroup below the mount; None where it is gone and was never seen."""

    def watch(self, pid: int) -> None:
        """Tell of this process's end in `ended`."""

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        """(device, inode) of each libcuda file that the process has mapped."""

    def ended(self) -> list[int]:
        """Pids that were watched and have ended since the last call."""

    def close(self) -> None:
        """Give back what it holds."""
