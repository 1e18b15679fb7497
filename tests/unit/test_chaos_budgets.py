"""What the chaos run's verdict on breaches sees; and its small disks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuledger.contract.records import Breach, BudgetsVersion
from gpuledger.pricing.yaml_documents import read_documents
from tests.chaos.budgets import NANO, PERCENT, WATCHED, crossed, document, wrong
from tests.chaos.disks import Disk
from tests.support.charge_sets import charge_set, recent_window_ns


def told(*states: str, percent: int = 1) -> list[Breach]:
    one = Breach(
        id=f"b{percent}",
        change=1,
        state="firing",
        budget_id="all",
        budget_version=1,
        period_start_ns=0,
        period_end_ns=1,
        since_ns=0,
        window_start_ns=0,
        threshold_ppm=percent * 10_000,
    )
    return [replace(one, change=change, state=state) for change, state in enumerate(states, 1)]


def test_the_document_says_what_is_watched() -> None:
    (version,) = read_documents(document(), "budgets.yaml")
    assert isinstance(version, BudgetsVersion)
    assert [budget.id for budget in version.budgets] == [one.id for one in WATCHED]
    assert [budget.amount_nano for budget in version.budgets] == [NANO, NANO // 4, NANO // 4, None]
    assert version.budgets[3].amount_gpu_ns == WATCHED[3].amount
    assert all(len(budget.thresholds_ppm) == len(PERCENT) for budget in version.budgets)


def test_lines_are_crossed_at_exactly_their_amount() -> None:
    charges = charge_set(recent_window_ns(), 1, nano=0)
    charges.used_nano[0] = NANO // 100
    assert ("all", 1) in crossed([charges])
    charges.used_nano[0] -= 1
    assert ("all", 1) not in crossed([charges])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (told("firing"), []),
        (told("firing", "retracted", "firing"), []),
        ([], ["breach ('all', 1) is not told"]),
        (told("firing", "retracted"), ["breach ('all', 1) is not told"]),
        (told("firing") * 2, ["breach b1 told twice: ['firing', 'firing']", "breach b1: changes [1, 1]",
                              "breach b1: ['firing', 'firing']"]),
        (told("firing") + told("firing", percent=2), ["breach ('all', 2) is told"]),
    ],
)  # fmt: skip
def test_what_is_told_otherwise_than_the_ledger_says_is_seen(changes: list[Breach], found: list[str]) -> None:
    assert wrong(changes, {("all", 1)}) == sorted(found)


def test_a_full_disk_has_room_for_nothing_until_it_is_freed(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", 1 << 20)
    if disk.mount():  # else this process may mount none, and chaos runs leave such faults out
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.directory / "more").write_bytes(bytes(5000))
        disk.free()
        (disk.directory / "more").write_bytes(bytes(5000))
    disk.unmount()
    assert not disk.mounted
