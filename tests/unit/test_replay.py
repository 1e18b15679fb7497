"""What a replay is asked, what it announces, and what counts as a difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuledger.attribution import Policy
from gpuledger.bus import BusSettings
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import (
    ChargeSet,
    Generation,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    encode,
)
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.pricing import Prices, Teams
from gpuledger.processor.charging import Configuration
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay import asked
from gpuledger.replay import request as requests
from gpuledger.replay.announcing import keep_plan, kept_plan, planned
from gpuledger.replay.checking import Comparison, differences
from gpuledger.replay.configurations import sides
from gpuledger.replay.replay_topics import request_from_bytes, request_to_bytes
from gpuledger.replay.request import Request
from gpuledger.replay.show import money
from gpuledger.replay.state import Position, State, Stored
from gpuledger.replay.what_if import amounts_of, steps_of
from tests.support.charge_sets import charge_set

START = 1_796_083_200 * NS_PER_S
REQUEST = Request(START, START + HOUR_NS, ProcessorSettings(), BusSettings().plain())
SAID = Generation(0, 7, 0, 0, 0, 0, cause="price", who="me", why="a test")


def book(version: int, active_from_ns: int, nano: int = 1) -> PriceBookVersion:
    return PriceBookVersion(version, active_from_ns, entries=[PriceEntry("gpu", "gpu", nano, "USD")])


def recorded(*generations: Generation, books: tuple[PriceBookVersion, ...] = (book(1, 0),)) -> Configuration:
    return Configuration(Prices(books), Teams([TeamMapVersion(1, 0)]), {g.number: g for g in generations})


def test_a_range_is_cut_where_what_is_recorded_changes() -> None:
    later = START + 20 * MINUTE_NS + 1
    before = Generation(4, 0, START + 30 * MINUTE_NS, START + 40 * MINUTE_NS, 1, 0, policy={"idle": "pool"})
    found = planned(REQUEST, recorded(before, books=(book(1, 0), book(2, later))), None, None, SAID)
    assert [(g.number, g.from_ns, g.to_ns, g.price_version, g.team_version, g.policy) for g in found] == [
        (5, START, later, 1, 1, {}),
        (6, later, before.from_ns, 2, 1, {}),
        (7, before.from_ns, before.to_ns, 1, 0, {"idle": "pool"}),
        (8, before.to_ns, REQUEST.to_ns, 2, 1, {}),
    ]
    assert {(g.announced_ns, g.cause, g.who, g.why) for g in found} == {(7, "price", "me", "a test")}


def test_what_stands_in_for_all_that_changes_needs_one_generation() -> None:
    books = (book(1, 0), book(2, START + 20 * MINUTE_NS))
    (found,) = planned(REQUEST, recorded(books=books), 2, None, SAID)
    assert (found.number, found.from_ns, found.to_ns, found.price_version) == (
        1,
        START,
        REQUEST.to_ns,
        2,
    )


def test_clusters_with_generations_of_their_own_keep_what_these_pin() -> None:
    half = START + HOUR_NS // 2
    of_a = Generation(1, 0, START, half, 1, 1, clusters=["a"], policy={"idle": "pool"})
    found = planned(REQUEST, recorded(of_a), None, None, SAID)
    assert [(g.number, g.clusters, g.from_ns, g.to_ns, g.policy) for g in found] == [
        (2, [], START, REQUEST.to_ns, {}),
        (3, ["a"], START, half, {"idle": "pool"}),
    ]
    (found_b,) = planned(replace(REQUEST, clusters=frozenset({"b"})), recorded(of_a), None, None, SAID)
    assert (found_b.number, found_b.clusters, found_b.policy) == (2, ["b"], {})
    both = planned(replace(REQUEST, clusters=frozenset({"a", "b"})), recorded(of_a), None, None, SAID)
    assert [(g.number, g.clusters) for g in both] == [(2, ["a"]), (3, ["a"]), (4, ["b"])]


def test_what_was_announced_is_announced_again_alike(tmp_path: Path) -> None:
    assert kept_plan(tmp_path) is None
    generations = planned(REQUEST, recorded(), None, None, SAID)
    keep_plan(tmp_path, generations)
    assert kept_plan(tmp_path) == generations


def test_each_cause_is_computed_on_top_of_the_ones_before() -> None:
    request = replace(REQUEST, prices=book(1, 0, 5), policy={"idle": "pool"})
    computed = list(sides(recorded(), request))
    assert [name for name, _ in computed] == [side for _, side in steps_of(request)]
    assert [cause for cause, _ in steps_of(request)] == ["late data", "price", "policy"]
    (_, first), (_, second), (_, third) = computed
    assert first == recorded() or first.policy is None
    prices = [one.prices.at(START, 1).entries[0].unit_price_nano_per_hour for one in (first, second, third)]
    assert prices == [1, 5, 5]
    assert [one.policy is not None for one in (first, second, third)] == [False, False, True]
    assert [side for _, side in steps_of(REQUEST)] == ["replayed"]


def test_columns_differ_byte_by_byte_and_lineage_does_not_count() -> None:
    one = charge_set(START)
    other = replace(one, generation=3, inputs=9, digest=1, core_version=9, partition=7)
    assert list(differences([one], [other])) == [None]
    dearer = replace(one, used_nano=one.used_nano + np.array([0, 1, 0]))
    (difference,) = differences([one], [dearer])
    assert difference is not None
    assert difference.what == ("used_nano",)
    missing = replace(one, sm_active=np.full(3, np.nan))
    assert list(differences([missing], [replace(missing)])) == [None]


def test_a_window_on_one_side_only_differs_unless_it_is_withdrawn_there() -> None:
    one, empty = charge_set(START), charge_set(START + 10 * NS_PER_S, pods=[])
    comparison = Comparison()
    comparison.add(differences([one, empty], []))
    comparison.add(differences([], [one, empty]))
    assert (comparison.windows, comparison.different) == (4, 2)
    assert [found.what for found in comparison.shown] == [("not in the ledger",), ("not in the replay",)]


def test_amounts_are_the_sums_by_team_and_currency() -> None:
    found = amounts_of([charge_set(START, nano=5), charge_set(START, priced=False, nano=0)])
    assert {key: amount.nano for key, amount in found.items()} == {
        ("team-a", "USD"): 40,
        ("team-b", "USD"): 20,
        ("team-a", ""): 0,
        ("team-b", ""): 0,
    }


def stored(one: ChargeSet, side: str = "replayed") -> Stored:
    return Stored(side, one, encode(one))


def test_of_a_window_the_greatest_revision_stays_in_the_state(tmp_path: Path) -> None:
    state = State(tmp_path / "p.sqlite", "x")
    less, more = charge_set(START, 2, inputs=3), charge_set(START, 4, inputs=4)
    state.save([stored(more)], [], Position(3, 9), [])
    state.save([stored(less)], [], Position(5, 9), [])
    state.record([stored(less, "recorded")])
    assert [len(one.device) for one in state.sets("replayed")] == [4]
    assert [len(one.device) for one in state.sets("recorded")] == [2]
    assert state.hours(HOUR_NS) == [START]
    with pytest.raises(Refused, match="another replay works on"):
        State(tmp_path / "p.sqlite", "x")
    state.close()
    with pytest.raises(Refused, match="something else"):
        State(tmp_path / "p.sqlite", "y")
    again = State(tmp_path / "p.sqlite", "x")
    assert again.get("position") == Position(5, 9)
    again.close()


def test_a_fingerprint_tells_requests_apart_and_not_where_kafka_is() -> None:
    elsewhere = BusSettings(kafka_bootstrap="elsewhere:1").plain()
    assert replace(REQUEST, bus=elsewhere).fingerprint == REQUEST.fingerprint
    others = [
        replace(REQUEST, to_ns=REQUEST.to_ns + MINUTE_NS),
        replace(REQUEST, clusters=frozenset({"a"})),
        replace(REQUEST, prices=book(1, 0)),
        replace(REQUEST, prices=book(1, 0, 2)),
        replace(REQUEST, policy={"idle": "pool"}),
        replace(REQUEST, generations=(SAID,)),
        replace(REQUEST, settings=ProcessorSettings(silence_s=1)),
    ]
    assert len({one.fingerprint for one in [REQUEST, *others]}) == len(others) + 1


def test_what_one_version_began_no_other_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_by_us = request_to_bytes(REQUEST)
    State(tmp_path / "p.sqlite", REQUEST.fingerprint).close()
    monkeypatch.setattr(requests, "CORE_VERSION", requests.CORE_VERSION + 1)
    with pytest.raises(Refused, match="something else; give another --state"):
        State(tmp_path / "p.sqlite", REQUEST.fingerprint)
    with pytest.raises(Refused, match="another version of gpuledger"):
        request_from_bytes(asked_by_us, REQUEST.bus)


def test_what_can_not_be_replayed_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="beginning of one"):
        asked.instant("2026-11-01T00:00:01Z", "--from")
    with pytest.raises(ConfigError, match="empty"):
        asked.check_range(START, START, START + HOUR_NS, 0)
    with pytest.raises(ConfigError, match="not over yet"):
        asked.check_range(START, START + HOUR_NS, START + HOUR_NS, 1)
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        Policy.settings_of(["idle"])
    with pytest.raises(ConfigError, match="no such policy"):
        Policy.settings_of(["nonsense=1"])
    with pytest.raises(Refused, match="idle policy"):
        Policy.settings_of(["idle=nonsense"])
    with pytest.raises(ConfigError, match="No such file"):
        asked.prices_of(tmp_path / "none.yaml")
    assert Policy.settings_of(["idle=pool"]) == {"idle": "pool"}


def test_money_shows_every_digit_that_counts() -> None:
    assert [money(n) for n in (0, 1_500_000_000, 1_234_000_000_001, -5)] == [
        "0.00",
        "1.50",
        "1,234.000000001",
        "-0.000000005",
    ]
    assert money(2_000_000_000, signed=True) == "+2.00"
