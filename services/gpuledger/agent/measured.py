"""The measurements of the open window, and of those that come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuledger.agent.samplers.samples import Gap, Round, Sample
from gpuledger.agent.state import NodeState
from gpuledger.contract.fields import SampleSource


class MeasuredPart(NamedTuple):
    """Samples of one record, each with its process, and the gaps beside them."""

    samples: list[tuple[Sample, int | None]]
    gaps: list[Gap]
    final: bool


class Measured:
    """Samples and gaps of an epoch that began at ``started_ns`` (agent time), until their windows end."""

    def __init__(self, state: NodeState, started_ns: int) -> None:
        self._state = state
        self._samples: list[tuple[Sample, int | None]] = []
        self._gaps: list[Gap] = []
        self.through_ns = started_ns
        """Up to when all is measured."""

    def __bool__(self) -> bool:
        return bool(self._samples or self._gaps)

    def add(self, taken: Round, window_ns: int) -> None:
        """A round, in the window that starts there or later; processes that are gone are left out of it."""
        for sample in taken.samples:
            process = None
            if sample.pid is not None:
                process = self._state.processes.of_pid(sample.pid)
                if process is None:
                    continue
            if _reaches(sample, window_ns):
                self._samples.append((sample, process))
        self._gaps += [gap for gap in taken.gaps if _reaches(gap, window_ns)]
        self.through_ns = max(self.through_ns, taken.through_ns)

    def miss(self, start_ns: int, end_ns: int) -> None:
        """Nothing came for that time."""
        self._gaps.append(Gap("", None, SampleSource.NVML, start_ns, end_ns - start_ns, "timeout"))

    def parts(self, start_ns: int, end_ns: int, size: int, hollow: bool) -> Iterator[MeasuredPart]:
        """The window's samples in as few records as hold them, at least one. ``hollow``: there is room for
        none, and that is said."""
        samples = [entry for entry in self._samples if entry[0].start_ns < end_ns]
        gaps = [gap for gap in self._gaps if gap.start_ns < end_ns]
        if hollow and samples:
            gaps = [no_room_gap(start_ns, end_ns - start_ns)]
            samples = []
        starts = range(0, max(len(samples), 1), size)
        for start in starts:
            final = start == starts[-1]
            yield MeasuredPart(samples[start : start + size], gaps if final else [], final)

    def forget(self, before_ns: int) -> None:
        """What reaches into no window from there on is over."""
        self._samples = [entry for entry in self._samples if _reaches(entry[0], before_ns)]
        self._gaps = [gap for gap in self._gaps if _reaches(gap, before_ns)]


def no_room_gap(start_ns: int, duration_ns: int) -> Gap:
    """What stands for the samples of a window for which the spool had no room."""
    return Gap("", None, SampleSource.UNKNOWN, start_ns, duration_ns, "spool_full")


def _reaches(entry: Sample | Gap, window_ns: int) -> bool:
    """Whether it speaks of a time in the window that starts there, or later."""
    end = entry.start_ns + entry.duration_ns
    return end > window_ns or (entry.duration_ns == 0 and end == window_ns)
