"""Two mixes on the emulated GPU, below real probes and a real agent, against the truth."""

from __future__ import annotations

from pathlib import Path

from tests.accuracy.judging import BASELINE, judge
from tests.accuracy.mixes import mixes
from tests.accuracy.recording import record

POINTS = 6.0  # of device time: three times what they are wrong by on a quiet machine
CHOSEN = ("two trainers, unequal", "off the books beside a holder")


def test_shares_of_two_mixes_are_near_the_truth_and_their_intervals_cover_it(tmp_path: Path) -> None:
    chosen = [mix for mix in mixes() if mix.name in CHOSEN]
    recording = record(chosen, windows=2, directory=tmp_path / "recording", lanes=2)
    verdicts = judge(recording)
    assert [window.state for window in recording.windows] == ["complete"] * 2
    assert {verdict.mix for verdict in verdicts} == set(CHOSEN)
    assert all(truth.busy_ns > 0 for truth in recording.truths)
    estimated = [verdict for verdict in verdicts if verdict.evidence.startswith("busy_estimated")]
    assert {verdict.stated for verdict in estimated} == {"busy_estimated"}
    assert [verdict for verdict in estimated if abs(verdict.error) > POINTS] == []
    assert [
        verdict for verdict in verdicts if verdict.stated != "launch counts" and not verdict.covered
    ] == []
    stated = [verdict for verdict in verdicts if verdict.evidence != BASELINE]
    assert [verdict for verdict in stated if not verdict.covered] == []
