"""What a chaos run's verdict says of a replay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuledger.contract.windows import NS_PER_S
from tests.chaos.replayed import LEDGERS, replayed

FROM_NS, TO_NS = 1_764_000_002 * NS_PER_S, 1_764_000_030 * NS_PER_S


def ledgers(*different: int) -> str:
    """What the replay says."""
    found = [
        {"compared": 7, "different": number, "windows": [{"node": "n1"}] * number} for number in different
    ]
    return json.dumps({"read": 3, "ledgers": dict(zip(LEDGERS, found, strict=False))})


def answered(monkeypatch: pytest.MonkeyPatch, status: int, says: str) -> list[Sequence[str]]:
    """Have the command answer so; the commands that were called."""
    called: list[Sequence[str]] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        called.append(command)
        return subprocess.CompletedProcess(command, status, says, "it ended badly")

    monkeypatch.setattr(subprocess, "run", run)
    return called


def test_a_replay_that_is_what_was_charged_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = answered(monkeypatch, 0, ledgers(0, 0))
    assert replayed({}, tmp_path, FROM_NS, TO_NS) == (dict.fromkeys(LEDGERS, 7), [])
    assert "2025-11-24T16:00:02+00:00" in called[0]
    assert "2025-11-24T16:00:30+00:00" in called[0]


@pytest.mark.parametrize(
    ("status", "says", "wrong"),
    [
        (1, ledgers(0, 2), "2 of 7 windows are others in the warehouse: [{'node': 'n1'}, {'node': 'n1'}]"),
        (0, ledgers(0), "not compared with the warehouse"),
        (2, "", "the replay ended with 2: it ended badly"),
        (1, ledgers(0, 0), "the replay ended with 1"),
    ],
    ids=["other-windows", "one-ledger-only", "no-answer", "status"],
)
def test_a_replay_that_is_not_what_was_charged_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, says: str, wrong: str
) -> None:
    answered(monkeypatch, status, says)
    _, found = replayed({}, tmp_path, FROM_NS, TO_NS)
    assert [one.endswith(wrong) for one in found] == [True], found
