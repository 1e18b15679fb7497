"""What is changed in a chaos run, and what its verdict on closed months sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.money import cost
from gpuledger.contract.periods import following, period_of
from gpuledger.contract.records import ChargeSet, PeriodsVersion, PriceBookVersion
from gpuledger.contract.windows import HOUR_NS, hour_start
from gpuledger.pricing.yaml_documents import read_documents
from tests.chaos.changes import steps
from tests.chaos.interrupted import DIES_AFTER_S
from tests.chaos.months import Booked, Told, changed, corrected, wrong
from tests.chaos.prices import FIRST_NANO_PER_HOUR, PriceLine
from tests.support.charge_sets import WINDOW_NS, charge_set, recent_window_ns

ROOT = Path(__file__).parents[2]
START = recent_window_ns()
OWN = period_of(START)
HOUR = ("n1", hour_start(START) // NS_PER_S)
CLOSED = [PeriodsVersion(1, START + HOUR_NS, OWN)]
BEFORE, BEHIND = START + HOUR_NS - 1, START + HOUR_NS
PUBLISHING = (
    "import runpy, time, gpuledger.cli as cli; from gpuledger.configuration import Documents;"
    "cli.main = lambda: Documents.apply(None, None, dry_run={dry_run});"
    "Documents.apply = lambda *given, **options: time.sleep({lasts}) or print('published');"
    "runpy.run_module('tests.chaos.interrupted', run_name='__main__')"
)


def test_a_price_line_charges_each_stretch_at_its_price_and_its_document_says_the_same() -> None:
    line = PriceLine()
    line.change(100 * NS_PER_S, 200 * NS_PER_S, 5_000_000_000)
    line.change(150 * NS_PER_S, 300 * NS_PER_S, 7_000_000_000)
    line.change(400 * NS_PER_S, None, 9_000_000_001)
    first, second, third, last = FIRST_NANO_PER_HOUR, 5_000_000_000, 7_000_000_000, 9_000_000_001
    pieces = [(0, 100, first), (100, 150, second), (150, 300, third), (300, 400, first), (400, 500, last)]
    assert line.owed(0, 500 * NS_PER_S) == sum(
        cost(price, start * NS_PER_S, end * NS_PER_S) for start, end, price in pieces
    )
    assert line.owed(160 * NS_PER_S + 1, 170 * NS_PER_S) == cost(third, 160 * NS_PER_S + 1, 170 * NS_PER_S)
    (version,) = read_documents(line.document(), "prices.yaml")
    assert isinstance(version, PriceBookVersion)
    assert [
        (entry.effective_from_ns, entry.effective_to_ns, entry.unit_price_nano_per_hour)
        for entry in version.entries
    ] == [(start * NS_PER_S, end * NS_PER_S if end < 500 else None, price) for start, end, price in pieces]


def test_changes_follow_from_the_seed_and_come_in_every_run() -> None:
    for seed in range(20):
        assert steps(seed, 10) == steps(seed, 10)
        assert {step.do for step in steps(seed, 10)} == {"reprice", "apply_again", "poison", "mend"}
        assert steps(seed, 10) != steps(seed + 1, 10)


@pytest.mark.parametrize(
    ("dry_run", "lasts", "status"), [(False, 60, -signal.SIGKILL), (True, 0, 0), (False, 0, 0)],
    ids=["killed-while-it-publishes", "not-where-it-only-tries", "not-where-it-was-quick"],
)  # fmt: skip
def test_a_command_is_killed_soon_after_it_began_to_publish(dry_run: bool, lasts: int, status: int) -> None:
    script = PUBLISHING.format(dry_run=dry_run, lasts=lasts)
    after_s = "0.01" if lasts else "600"
    environment = os.environ | {DIES_AFTER_S: after_s, "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, timeout=50)
    assert done.returncode == status, done.stderr


def one(nano: int, inputs: int, generation: int = 0, window: int = 0) -> ChargeSet:
    return charge_set(START + window * WINDOW_NS, node="n1", nano=nano, inputs=inputs, generation=generation)


def booked(*by_month: tuple[str, Told]) -> Booked:
    """As the ledger says it where each month has what these sets amount to."""
    found = Booked()
    for month, sets in by_month:
        amounts: dict[tuple[str, str], tuple[int, int]] = {}
        for _, charges in sets:
            for at in range(len(charges.device)):
                key = charges.texts[charges.device[at]], charges.texts[charges.team[at]]
                nano, ns = amounts.get(key, (0, 0))
                names = ("used", "held_idle", "unallocated", "unobserved")
                nano += sum(int(getattr(charges, f"{name}_nano")[at]) for name in names)
                ns += sum(int(getattr(charges, f"{name}_ns")[at]) for name in names)
                amounts[key] = nano, ns
        found.amounts[HOUR][month] = amounts
    return found


def test_what_was_known_when_the_month_was_closed_is_booked_in_it() -> None:
    first, late = (BEFORE, one(10, 5)), (BEHIND, one(30, 6))
    assert not list(wrong(booked((OWN, [first])), CLOSED, [first, late]))
    assert not list(wrong(booked((OWN, [first]), (following(OWN), [late])), CLOSED, [first, late]))
    assert list(wrong(booked((OWN, [late])), CLOSED, [first, late]))
    assert list(wrong(booked(), CLOSED, [first, late]))
    assert list(wrong(booked((following(OWN), [first])), CLOSED, [first]))
    assert corrected(CLOSED, [first, late]) == 1


def test_heads_of_a_generation_are_booked_all_together_or_not_at_all() -> None:
    windows = (0, 1)
    old = [(BEFORE, one(10, 5, window=number)) for number in windows]
    new = [(BEFORE, one(30, 5, 1, number)) for number in windows]
    for shown in (old, new):
        assert not list(wrong(booked((OWN, shown)), CLOSED, [*old, *new]))
    assert list(wrong(booked((OWN, [old[0], new[1]])), CLOSED, [*old, *new]))


def test_what_came_of_a_generation_since_the_last_look_may_be_booked_later_and_nothing_else() -> None:
    old, new = (BEFORE, one(10, 5)), (BEFORE, one(30, 5, 1, window=1))
    assert not list(wrong(booked((OWN, [old])), CLOSED, [old, new]))
    plain = (BEFORE, one(30, 5, window=1))
    assert list(wrong(booked((OWN, [old])), CLOSED, [old, plain]))
    last = (BEFORE, one(40, 5, 1, window=2))
    assert not list(wrong(booked((OWN, [old, new])), CLOSED, [old, new, last]))
    assert list(wrong(booked((OWN, [old, last])), CLOSED, [old, new, last]))


def test_an_hour_of_a_month_that_is_open_is_booked_in_no_closed_one() -> None:
    earlier = [replace(CLOSED[0], closed_through="2020-01")]
    told = [(BEFORE, one(10, 5))]
    assert not list(wrong(booked((OWN, told)), earlier, told))
    assert list(wrong(booked(("2020-01", told)), earlier, told))


def test_a_booking_that_changed_is_seen() -> None:
    before = booked((OWN, [(BEFORE, one(10, 5))])).of([OWN])
    after = booked((OWN, [(BEFORE, one(11, 5))])).of([OWN])
    assert not changed(before, before)
    assert len(changed(before, after)) == 1
    assert len(changed(before, {})) == 1
