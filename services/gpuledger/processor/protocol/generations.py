"""Which generation a window is computed with."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.processor.protocol.values import Announcement


@dataclass(frozen=True, slots=True)
class Generations:
    """The announcements read so far."""

    announced: tuple[Announcement, ...] = ()

    def with_announcement(self, announcement: Announcement) -> Generations:
        """With one more; the same number again changes nothing."""
        if any(known.number == announcement.number for known in self.announced):
            return self
        return Generations((*self.announced, announcement))

    def of(self, cluster: str, window_start_ns: int) -> int:
        """The greatest generation whose range the window starts in; 0 where there is none."""
        greatest = 0
        for number, start_ns, end_ns, clusters in self.announced:
            if number > greatest and start_ns <= window_start_ns < end_ns:
                if clusters and cluster not in clusters:
                    continue
                greatest = number
        return greatest

    def greatest(self, cluster: str, start_ns: int, end_ns: int) -> int:
        """The greatest generation whose range touches [start_ns, end_ns); 0 where there is none."""
        return max(
            (
                number
                for number, from_ns, to_ns, clusters in self.announced
                if from_ns < end_ns and start_ns < to_ns and (not clusters or cluster in clusters)
            ),
            default=0,
        )
