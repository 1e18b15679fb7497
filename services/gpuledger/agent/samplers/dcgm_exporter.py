"""A `Sampler` over a dcgm-exporter's endpoint.

The exporter measures by its own schedule and shows the last values, so a scrape can not tell when they were
taken: a mean is said to speak for the time since the previous scrape. Let the exporter collect at least as
often as it is scraped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.agent import metrics
from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.nvml import Missing
from gpuledger.agent.samplers.exporter_http import MAX_BYTES, TOTAL_TIMEOUT_S, Scrape, exporter_url
from gpuledger.agent.samplers.exporter_readings import SOURCE, ExporterReadings
from gpuledger.agent.samplers.samples import Gap, Round
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.records import Device

DEFAULT_PERIOD_S: Final = 10  # the length of a window: each ends with a scrape
WAIT_S: Final = 0.5  # the loop waits 0.8 s for a window's measurements; a healthy exporter takes a few ms


class DcgmExporterSampler:
    """Scrapes at whole multiples of the period of agent time; rounds in between are empty.

    ``devices`` are the node's, by which MIG instances get their UUIDs. An exporter that hangs is waited for
    `WAIT_S` and no longer. Raises ConfigError where ``url`` is none.
    """

    def __init__(
        self,
        url: str,
        devices: Sequence[Device],
        clock: Clock,
        time: AgentTime,
        period_ns: int = DEFAULT_PERIOD_S * NS_PER_S,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._url = exporter_url(url)
        self._clock = clock
        self._time = time
        self._period_ns = period_ns
        self._max_bytes = max_bytes
        self._readings = ExporterReadings(devices)
        self._since_ns = time.now_ns(clock)
        self._scrape: Scrape | None = None

    def know(self, devices: Sequence[Device]) -> None:
        """From now on the node has these devices; a counter's first reading of them is its beginning."""
        self._readings = ExporterReadings(devices)

    def rebase(self, time: AgentTime) -> None:
        """See Sampler.rebase."""
        shift = time.offset_ns - self._time.offset_ns
        self._since_ns += shift
        self._readings.rebase(shift)
        self._time = time

    def sample(self) -> Round:
        """See Sampler.sample."""
        now_ns = self._time.now_ns(self._clock)
        taken = Round(through_ns=now_ns)
        if now_ns // self._period_ns == self._since_ns // self._period_ns:
            return taken
        start_ns = max(self._since_ns, now_ns - 2 * self._period_ns)
        self._since_ns = now_ns
        try:
            text = self._ask()
        except Missing as missing:
            metrics.DCGM_SCRAPES.labels(missing.reason).inc()
            taken.gaps.append(Gap("", None, SOURCE, start_ns, now_ns - start_ns, missing.reason))
            return taken
        exposition = parse_exposition(text)
        metrics.DCGM_SCRAPES.labels("ok").inc()
        metrics.DCGM_SKIPPED_LINES.inc(exposition.skipped_lines)
        taken.samples, taken.gaps = self._readings.take(exposition, start_ns, now_ns)
        return taken

    def close(self) -> None:
        """See Sampler.close."""
        if self._scrape is not None:
            self._scrape.abandon()
            self._scrape = None

    def _ask(self) -> str:
        """The text of the exporter now. Raises Missing."""
        if self._scrape is not None and self._scrape.age_s > TOTAL_TIMEOUT_S:
            self.close()
        if self._scrape is not None:
            self._finish_late(self._scrape)
        if self._scrape is None:
            self._scrape = Scrape(self._url, self._clock, self._max_bytes)
            scrape = self._scrape
            try:
                text = scrape.text(WAIT_S)
            except Missing:
                self._scrape = None
                raise
            if text is not None:
                self._scrape = None
                return text
        raise Missing("timeout")

    def _finish_late(self, scrape: Scrape) -> None:
        """An answer that came after its time is of no known time, and is not used."""
        try:
            if scrape.text(0.0) is not None:
                self._scrape = None
        except Missing:
            self._scrape = None
