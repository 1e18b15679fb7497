"""A short run of the random faults of tests/chaos, the same each time."""

from pathlib import Path

import pytest

from gpuledger.contract.charge_columns import ROW_COLUMNS, TEXT_COLUMNS
from tests.chaos import rows, truth
from tests.chaos.faults import KINDS, schedule
from tests.chaos.one import run
from tests.support.charge_sets import charge_set, recent_window_ns

SEED = 16
FAULTS_S = 14.0
TARGETS = [
    "budgets-0", "disk-nodes", "disk-warehouse", "inserts-warehouse", "kafka", "link-agent-0",
    "link-agent-1", "link-kafka", "link-registry", "link-warehouse", "log", "node-0.0", "node-0.1",
    "registry", "sink", "store-kafka", "warehouse", "worker-0", "worker-1",
]  # fmt: skip

ENDS_OF = {
    "kill": {"revive"}, "stop": {"revive"}, "strand": {"lose"}, "freeze": {"thaw"},
    "cut": {"join"}, "hold": {"join"}, "mute": {"join", "sever"}, "repeat": {"nothing"},
    "step_ahead": {"step_back"}, "step_behind": {"step_back"}, "leap_ahead": {"step_back"},
    "leap_behind": {"step_back"}, "twin": {"untwin"}, "fill": {"free"},
    "refuse_parts": {"accept"}, "refuse_writes": {"accept"},
}  # fmt: skip


def test_the_faults_follow_from_the_seed_and_every_one_of_them_ends() -> None:
    begun = set()
    for seed in range(SEED, SEED + 40):
        steps = schedule(seed, FAULTS_S, TARGETS)
        assert steps == schedule(seed, FAULTS_S, TARGETS)
        assert steps != schedule(seed + 1, FAULTS_S, TARGETS)
        for target in TARGETS:
            done = [step.do for step in steps if step.target == target]
            assert len(done) % 2 == 0
            assert all(end in ENDS_OF[begin] for begin, end in zip(done[::2], done[1::2], strict=True))
            begun |= {(target.partition("-")[0], begin) for begin in done[::2]}
    assert begun >= {(family, kind.begin) for family, kinds in KINDS.items() for kind in kinds}


MEASURED = sorted(set(ROW_COLUMNS) - set(TEXT_COLUMNS) - {"priced", "effective_known"})


@pytest.mark.parametrize("column", MEASURED)
def test_one_wrong_value_in_one_row_is_seen(column: str) -> None:
    start = recent_window_ns()
    right, wrong = charge_set(start), charge_set(start)
    assert not truth.differences(right, wrong)
    assert not rows.differences(rows.of_sets([wrong]), rows.of_sets([right]))
    getattr(wrong, column)[1] += 1
    assert truth.differences(wrong, right) == [column]
    assert len(rows.differences(rows.of_sets([wrong]), rows.of_sets([right]))) >= 1


def test_the_ledger_is_exact_after_kills_and_zombies_everywhere(tmp_path: Path) -> None:
    said: list[str] = []
    verdict = run(tmp_path, SEED, FAULTS_S, nodes=2, say=said.append)
    assert not verdict.wrong, "\n".join(said)
    assert verdict.facts["records"]
    assert verdict.facts["windows replayed"]
    assert +verdict.happened
