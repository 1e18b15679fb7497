"""The time that a report is about: from the words of an option to seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuledger.contract.errors import ConfigError, UserError
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.yaml_values import instant_ns

HOUR_S = 3_600
_UNITS_S = {"m": 60, "h": HOUR_S, "d": 24 * HOUR_S, "w": 7 * 24 * HOUR_S}
_AGO = re.compile(r"([1-9][0-9]{0,4}) ?(m|h|d|w)")
MAX_BUCKETS = 24  # of a trend: as wide as a table can spare
FINE_S = 6 * HOUR_S  # a trend of a shorter time has buckets below an hour
_WIDTHS_S = (10, 30, 60, 300, 600, 900, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S)
_LONGEST_S = 10 * 366 * 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class Span:
    """[start, until) in s since the Unix epoch."""

    start_s: int
    until_s: int

    @property
    def length_s(self) -> int:
        """Seconds of it."""
        return self.until_s - self.start_s

    @property
    def before(self) -> Span:
        """The time of the same length that ends where this one begins."""
        return Span(self.start_s - self.length_s, self.start_s)

    @property
    def is_fine(self) -> bool:
        """Whether its trend needs windows, as hours are too coarse for it."""
        return self.length_s <= FINE_S

    @property
    def bucket_s(self) -> int:
        """Length of a bucket of its trend; buckets begin at multiples of it."""
        for width in _WIDTHS_S:
            if self.length_s <= width * MAX_BUCKETS and (self.is_fine or width >= HOUR_S):
                return width
        day = _WIDTHS_S[-1]
        return -(-self.length_s // MAX_BUCKETS // day) * day

    @property
    def buckets(self) -> list[Span]:
        """The buckets of its trend in order; the first and the last are cut to the span."""
        width = self.bucket_s
        starts = range(self.start_s - self.start_s % width, self.until_s, width)
        return [Span(max(s, self.start_s), min(s + width, self.until_s)) for s in starts]


def span_of(since: str, until: str | None, now_ns: int) -> Span:
    """The span of ``24h``, ``7d`` or an instant, up to ``until`` (an instant) or now. Raises UserError."""
    now_s = now_ns // NS_PER_S
    until_s = now_s if until is None else _instant_s(until, "--until")
    ago = _AGO.fullmatch(since)
    start_s = until_s - int(ago[1]) * _UNITS_S[ago[2]] if ago else _instant_s(since, "--since")
    if start_s >= until_s:
        raise UserError("--since is not before --until: nothing lies between them")
    if until_s - start_s > _LONGEST_S or start_s < until_s - start_s:
        raise UserError("--since reaches too far back: ten years are the longest")
    return Span(start_s, until_s)


def _instant_s(text: str, option: str) -> int:
    try:
        return instant_ns(text) // NS_PER_S
    except ValueError as error:
        hint = "; or say how long ago: 30m, 24h, 7d, 4w" if option == "--since" else ""
        raise ConfigError(f"{error}{hint}", option) from None
