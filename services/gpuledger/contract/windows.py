"""Aligned UTC windows: the grain in which everything is charged."""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_S = 1_000_000_000
MINUTE_NS = 60 * NS_PER_S
HOUR_NS = 3600 * NS_PER_S
DAY_NS = 24 * HOUR_NS
DEFAULT_WINDOW_NS = 10 * NS_PER_S  # short enough for answers within seconds, long enough for few records
FIRST_LAUNCH_NS = 1_420_070_400 * NS_PER_S  # 2015: no node that is paid for now was launched before
MIN_WINDOW_NS = NS_PER_S  # below a second a sample of the silicon says nothing


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """How a cluster cuts time: windows of ``length_ns``, aligned to the Unix epoch.

    The length divides a minute, so that windows never straddle a minute, an hour or a UTC day.
    """

    length_ns: int = DEFAULT_WINDOW_NS

    def __post_init__(self) -> None:
        if self.length_ns < MIN_WINDOW_NS or MINUTE_NS % self.length_ns:
            raise ValueError(f"a window of {self.length_ns} ns is no divisor of 60 s of at least 1 s")

    def start(self, unix_ns: int) -> int:
        """Start of the window that ``unix_ns`` lies in."""
        return unix_ns - unix_ns % self.length_ns

    def end(self, unix_ns: int) -> int:
        """End (exclusive) of the window that ``unix_ns`` lies in."""
        return self.start(unix_ns) + self.length_ns

    def next(self, start_ns: int) -> int:
        """Start of the window after the one that starts at ``start_ns``."""
        return start_ns + self.length_ns

    def is_start(self, unix_ns: int) -> bool:
        """Whether a window starts at ``unix_ns``."""
        return unix_ns % self.length_ns == 0

    def between(self, first_ns: int, end_ns: int) -> range:
        """Starts of the windows from the one at ``first_ns`` to the last that starts before ``end_ns``."""
        return range(self.start(first_ns), end_ns, self.length_ns)


def hour_start(unix_ns: int) -> int:
    """Start of the UTC hour that ``unix_ns`` lies in."""
    return unix_ns - unix_ns % HOUR_NS
