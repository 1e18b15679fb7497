"""Errors of each kind of evidence over a recording, and how often its stated interval covered the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from gpuledger.attribution import NodeWindow, charge_windows
from gpuledger.contract.fields import Field
from gpuledger.contract.records import (
    Holdings,
    NodeLayout,
    PriceBookVersion,
    PriceEntry,
    Process,
    SampleBatch,
)
from gpuledger.pricing import Prices, Teams
from tests.accuracy.recording import Recording, Truth

PRICES = Prices([PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])])
TRUTH_NS = 10_000_000  # to which the emulator's record of the truth can be cut
POINTS = 100.0
SAMPLE_COLUMNS = ("device", "process", "field", "source", "start_ns", "duration_ns", "value")


@dataclass(frozen=True)
class Verdict:
    """One process of one mix in one window by one kind of evidence. ``error`` and ``width`` (of the stated
    interval) are in points of the device's time."""

    mix: str
    evidence: str
    window_start_ns: int
    error: float
    width: float
    covered: bool
    stated: str


def _everything(window: NodeWindow) -> NodeWindow:
    return window


def _without(samples: Sequence[SampleBatch], field: Field) -> list[SampleBatch]:
    kept = []
    for batch in samples:
        rows = np.flatnonzero(batch.field != field)
        kept.append(replace(batch, **{name: getattr(batch, name)[rows] for name in SAMPLE_COLUMNS}))
    return kept


def _calls_and_device(window: NodeWindow) -> NodeWindow:
    return replace(window, samples=_without(window.samples, Field.PROCESS_SM_UTILIZATION))


def _calls_alone(window: NodeWindow) -> NodeWindow:
    holdings = [replace(state, layout=_undeclared(state.layout)) for state in window.holdings]
    return replace(window, holdings=holdings, samples=())


def _undeclared(layout: NodeLayout) -> NodeLayout:
    """As a node says that does not measure SM active."""
    return replace(layout, devices=[replace(d, sm_active_declared=False) for d in layout.devices])


def _measured(window: NodeWindow) -> NodeWindow:
    holdings = [_unseen(state) for state in window.holdings]
    samples = [replace(batch, processes=_blind(batch.processes)) for batch in window.samples]
    return replace(window, holdings=holdings, samples=samples, events=())


def _unseen(state: Holdings) -> Holdings:
    nothing = np.zeros(0, np.int64)
    names = [one.name for one in fields(state) if one.name.startswith(("outstanding_", "learned_"))]
    return replace(state, processes=_blind(state.processes), **dict.fromkeys(names, nothing))


def _blind(processes: Sequence[Process]) -> list[Process]:
    return [replace(process, witnessed=False) for process in processes]


def _equal_active(window: NodeWindow) -> NodeWindow:
    blind = _measured(window)
    return replace(blind, samples=_without(blind.samples, Field.PROCESS_SM_UTILIZATION))


EVIDENCE: dict[str, Callable[[NodeWindow], NodeWindow]] = {
    "all": _everything,
    "process_measured": _measured,
    "busy_estimated + device": _calls_and_device,
    "busy_estimated": _calls_alone,
    "equal_active": _equal_active,
}
BASELINE = "launch counts"


def judge(recording: Recording) -> list[Verdict]:
    """Every process by every evidence, and by the baseline: the device's time in proportion to launches."""
    found = [verdict for name in EVIDENCE for verdict in judge_by(name, recording)]
    return [*found, *_by_launches(recording)]


def judge_by(evidence: str, recording: Recording) -> Iterator[Verdict]:
    """Every process by one kind of evidence."""
    rows = _rows(recording, EVIDENCE[evidence])
    for truth in recording.truths:
        row = rows.get(_key(truth), _Row())
        span_ns = recording.windows[0].window_length_ns
        low, high = row.low_ns - TRUTH_NS, row.high_ns + TRUTH_NS
        yield Verdict(
            truth.mix,
            evidence,
            truth.window_start_ns,
            POINTS * (row.used_ns - truth.busy_ns) / span_ns,
            POINTS * (row.high_ns - row.low_ns) / span_ns,
            low <= truth.busy_ns <= high,
            row.evidence,
        )


@dataclass
class _Row:
    used_ns: float = 0.0
    low_ns: float = 0.0
    high_ns: float = 0.0
    launches: int = 0
    evidence: str = "none"


_Key = tuple[int, str, str]


def _key(truth: Truth) -> _Key:
    return truth.window_start_ns, truth.device, truth.consumer


def _rows(recording: Recording, view: Callable[[NodeWindow], NodeWindow]) -> dict[_Key, _Row]:
    """What each consumer used of each device in each window, of the device's whole time: a MIG instance's GPU
    time is only its slices' part of it."""
    windows = [view(window) for window in recording.windows]
    found: dict[_Key, _Row] = {}
    for window, charges in zip(windows, charge_windows(windows, PRICES, Teams()), strict=True):
        rows = list(charges.rows())
        whole_ns: dict[str, int] = {}
        for row in rows:
            whole_ns[row["device"]] = whole_ns.get(row["device"], 0) + row.total_ns
        for row in rows:
            scale = window.window_length_ns / whole_ns[row["device"]] if whole_ns[row["device"]] else 0.0
            sums = found.setdefault((window.window_start_ns, row["device"], row["consumer"]), _Row())
            sums.used_ns += row["used_ns"] * scale
            sums.low_ns += row["confidence_low_ns"] * scale
            sums.high_ns += row["confidence_high_ns"] * scale
            sums.launches += row["launches"]
            sums.evidence = row["evidence"] if row["used_ns"] else sums.evidence
    return found


def _by_launches(recording: Recording) -> Iterator[Verdict]:
    rows = _rows(recording, _everything)
    span_ns = recording.windows[0].window_length_ns
    for truth in recording.truths:
        beside = [other for other in recording.truths if _key(other)[:2] == _key(truth)[:2]]
        busy_ns = sum(other.busy_ns for other in beside)
        launches = sum(rows.get(_key(other), _Row()).launches for other in beside)
        mine = rows.get(_key(truth), _Row()).launches
        guess_ns = busy_ns * mine / launches if launches else 0.0
        error = POINTS * (guess_ns - truth.busy_ns) / span_ns
        yield Verdict(truth.mix, BASELINE, truth.window_start_ns, error, 0.0, False, BASELINE)
