"""What a published version owes to the past, and the generations that are announced for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.records import (
    Generation,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
    decode,
    encode,
)
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.restating import Published, owed, restated, stretches
from gpuledger.pricing.yaml_documents import read_prices
from gpuledger.pricing.yaml_values import instant_ns

HOUR = 60 * MINUTE_NS
JULY = instant_ns("2025-07-01")
SPOT = """\
kind: prices
prices: [{id: on-demand, per: gpu, price_per_hour: 5, match: {cluster: c}}]
spot:
  - id: spot
    per: gpu
    match: {cluster: c, zone: z}
    known_until: 2025-07-01T%s:00:00Z
    prices: [{from: 2025-07-01T00:00:00Z, price_per_hour: 2}%s]
"""


def book(number: int, active: int, *entries: PriceEntry, restates: bool = True) -> PriceBookVersion:
    return PriceBookVersion(number, active * MINUTE_NS, entries=list(entries), restates_past=restates)


def entry(price: int, start: int = 0, end: int | None = None, cluster: str = "") -> PriceEntry:
    return PriceEntry(
        f"p{cluster}{start}",
        "gpu",
        price * 10**9,
        "USD",
        effective_from_ns=start * MINUTE_NS,
        effective_to_ns=None if end is None else end * MINUTE_NS,
        cluster=cluster,
        priority=int(bool(cluster)),
    )


def told(found: list[Generation]) -> list[tuple[object, ...]]:
    """Number, minutes, clusters, versions of prices and teams, cause."""
    return [
        (
            one.number,
            one.from_ns // MINUTE_NS,
            one.to_ns // MINUTE_NS,
            "".join(one.clusters),
            one.price_version,
            one.team_version,
            one.cause,
        )
        for one in found
    ]


ONE = book(1, 0, entry(1), restates=False)
TWO = book(2, 50, entry(1, 0, 10), entry(2, 10))


def test_a_generation_is_announced_from_where_the_price_is_another_to_where_the_version_holds():
    assert told(owed(Published([ONE, TWO]))) == [(1, 10, 50, "", 2, 0, "price")]
    (record,) = owed(Published([ONE, TWO]))
    assert decode(Generation, encode(record)) == record


def test_what_was_announced_once_is_owed_no_more():
    published = Published([ONE, TWO])
    assert owed(replace(published, announced=owed(published))) == []


def test_a_version_that_leaves_the_past_alone_owes_nothing():
    assert owed(Published([ONE, replace(TWO, restates_past=False)])) == []


def test_a_late_spot_price_is_owed_to_its_cluster_alone():
    """Known to 3:00, and at 7:30 to 9:00: 3:00 to 7:30 is restated, the rest is not charged yet."""
    old = read_prices(SPOT % ("03", ""), "p.yaml")
    new = read_prices(SPOT % ("09", ", {from: 2025-07-01T05:00:00Z, price_per_hour: 3}"), "p.yaml")
    old.version = 1
    new.version, new.active_from_ns, new.restates_past = 2, JULY + 15 * HOUR // 2, True
    (found,) = owed(Published([old, new]))
    assert (found.from_ns, found.to_ns) == (JULY + 3 * HOUR, JULY + 15 * HOUR // 2)
    assert (found.clusters, found.cause) == (["c"], "late_price")


def test_a_first_price_list_is_owed_to_all_of_the_past_that_had_no_price():
    assert told(owed(Published([book(1, 50, entry(1))]))) == [(1, 0, 50, "", 1, 0, "price")]


def test_the_team_map_that_the_past_was_charged_with_stays():
    """Teams 1 hold to minute 30, teams 2 from then on: two generations, each with its own."""
    teams = [TeamMapVersion(1, 0), TeamMapVersion(2, 30 * MINUTE_NS, default_team="x")]
    assert told(owed(Published([ONE, TWO], teams))) == [
        (1, 10, 30, "", 2, 1, "price"),
        (2, 30, 50, "", 2, 2, "price"),
    ]


def test_prices_and_teams_that_change_together_are_one_generation_where_both_do():
    teams = [
        TeamMapVersion(1, 0),
        TeamMapVersion(
            2,
            50 * MINUTE_NS,
            rules=[TeamRule("a", "a", effective_from_ns=20 * MINUTE_NS)],
            default_team="",
            restates_past=True,
        ),
    ]
    teams[0].rules = [TeamRule("b", "b", effective_to_ns=20 * MINUTE_NS)]
    teams[1].rules += teams[0].rules
    assert told(owed(Published([ONE, TWO], teams))) == [(1, 10, 50, "", 2, 2, "price")]
    assert told(owed(Published([ONE], teams))) == [(1, 20, 50, "", 1, 2, "team")]


def test_a_price_that_goes_back_is_owed_to_the_past_that_a_generation_made_dearer():
    """Version 2 restated 10 to 50; version 3 is as version 1: 10 to 50, and on to where it holds."""
    three = book(3, 90, entry(1))
    announced = owed(Published([ONE, TWO]))
    assert told(owed(Published([ONE, TWO, three], (), announced))) == [(2, 10, 90, "", 3, 0, "price")]


def test_a_version_that_was_interrupted_is_owed_still_when_another_kind_was_published():
    teams = [TeamMapVersion(1, 60 * MINUTE_NS, default_team="x")]
    assert told(owed(Published([ONE, TWO], teams))) == [(1, 10, 50, "", 2, 0, "price")]


def test_a_policy_that_a_generation_pins_stays():
    replayed = Generation(1, 0, 0, 20 * MINUTE_NS, 1, 0, policy={"burst": "reserved_first"})
    found = owed(Published([ONE, TWO], (), [replayed]))
    assert told(found) == [(2, 10, 20, "", 2, 0, "price"), (3, 20, 50, "", 2, 0, "price")]
    assert [one.policy for one in found] == [{"burst": "reserved_first"}, {}]


def test_a_cluster_that_has_a_generation_of_its_own_keeps_what_that_pins():
    """Cluster a has its own policy; what all clusters get would undo it, so a comes behind, and again."""
    own = Generation(1, 0, 0, 99 * MINUTE_NS, 1, 0, ["a"], {"idle": "pool"})
    found = owed(Published([ONE, TWO], (), [own]))
    assert told(found) == [
        (2, 10, 50, "", 2, 0, "price"),
        (3, 10, 99, "a", 2, 0, "price"),
    ]
    assert found[1].policy == {"idle": "pool"}


def test_a_generation_that_waits_for_its_version_counts_for_its_number_alone():
    """Its version is not there: nobody charges with it, and nobody takes its number."""
    waiting = Generation(7, 0, 0, 99 * MINUTE_NS, 5, 0)
    assert told(owed(Published([ONE, TWO], (), [waiting]))) == [(8, 10, 50, "", 2, 0, "price")]


def test_of_two_generations_with_one_number_the_first_holds():
    first = owed(Published([ONE, TWO]))[0]
    second = replace(first, from_ns=0, to_ns=MINUTE_NS)
    assert owed(Published([ONE, TWO], (), [first, second])) == []


entries = st.lists(
    st.builds(
        entry,
        st.integers(1, 3),
        st.integers(0, 5),
        st.integers(6, 12) | st.none(),
        st.sampled_from(["", "a", "b"]),
    ),
    max_size=3,
)
versions = st.lists(
    st.tuples(st.integers(0, 10), entries, st.booleans(), st.booleans()), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=200)
@given(versions, st.sampled_from(["a", "b", "c"]))
def test_once_all_is_announced_every_window_costs_what_the_newest_version_says(history, cluster):
    """Each version is published after the one before; some leave the past alone, of some the announcement
    is interrupted and made up for before the next. In the end the newest restates the past."""
    published = Published()
    now = 0
    for index, (ahead, prices, restates, _) in enumerate(history, start=1):
        now += ahead
        last = index == len(history)
        published = replace(
            published,
            prices=[*published.prices, book(index, now, *prices, restates=restates or last)],
        )
        more = owed(published)
        published = replace(published, announced=[*published.announced, *more])
        assert owed(published) == []
    newest = PriceBook(published.prices[-1])
    device = PricedDevice(cluster=cluster)
    for stretch in stretches(published, cluster):
        charged = published.books.get(stretch.pins[0])
        for at in range(stretch.start_ns, min(stretch.end_ns, 60 * MINUTE_NS), MINUTE_NS):
            before = PriceBook(charged).cost(device, at, at + MINUTE_NS) if charged else None
            wanted = newest.cost(device, at, at + MINUTE_NS)
            if before is None:
                assert wanted.unpriced_ns == MINUTE_NS
            else:
                assert (before.nano, before.unpriced_ns) == (wanted.nano, wanted.unpriced_ns)


@settings(deadline=None, max_examples=100)
@given(entries, entries)
def test_outside_of_what_is_restated_nothing_costs_otherwise(old, new):
    published = Published([book(1, 0, *old), book(2, 10, *new)])
    found = restated(published, published.prices[1], None)
    for cluster in "abc":
        device = PricedDevice(cluster=cluster)
        for minute in range(10):
            at = minute * MINUTE_NS
            inside = any(
                one.range.from_ns <= at < one.range.to_ns
                and (not one.range.clusters or cluster in one.range.clusters)
                for one in found
            )
            costs = [PriceBook(one).cost(device, at, at + MINUTE_NS) for one in published.prices]
            assert inside or costs[0] == costs[1]
