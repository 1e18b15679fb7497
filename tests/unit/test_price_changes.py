"""From one version to the next: what changes, for which time, and what a generation is announced for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.records import (
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.changes import (
    Range,
    cause_of,
    held,
    price_changes,
    ranges_to_restate,
    team_changes,
)
from gpuledger.pricing.currencies import FOREVER_NS
from gpuledger.pricing.yaml_documents import read_prices
from gpuledger.pricing.yaml_values import instant_ns

HOUR = 3_600_000_000_000
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


def spot(known_until: str, more: str = "") -> PriceBookVersion:
    return read_prices(SPOT % (known_until, more), "p.yaml")


def spans(changes) -> list[tuple[int, int]]:
    return [((change.start_ns - JULY) // HOUR, (change.end_ns - JULY) // HOUR) for change in changes]


def test_a_spot_price_that_arrives_late_changes_the_time_that_was_provisional():
    """Known to 3:00 at first, later to 9:00 with 3.00 from 5:00 on: 3:00 to 5:00 is no longer provisional,
    5:00 to 9:00 costs 3 instead of 2, and what is after 9:00 is provisional at 3 instead of 2."""
    old = spot("03")
    new = spot("09", ", {from: 2025-07-01T05:00:00Z, price_per_hour: 3}")
    changes = price_changes(old, new)
    assert spans(changes)[:2] == [(3, 5), (5, 9)]
    assert changes[2].end_ns == FOREVER_NS
    units = [
        (change.before.unit_price_nano_per_hour, change.after.unit_price_nano_per_hour)
        for change in changes
        if change.before and change.after
    ]
    assert units == [(2 * 10**9, 2 * 10**9), (2 * 10**9, 3 * 10**9), (2 * 10**9, 3 * 10**9)]
    assert cause_of(changes) == "late_price"


def test_the_same_document_changes_nothing():
    assert price_changes(spot("03"), spot("03")) == []


def test_a_correction_is_no_late_price():
    wrong = spot("03")
    right = read_prices((SPOT % ("03", "")).replace("price_per_hour: 5", "price_per_hour: 4"), "p.yaml")
    changes = price_changes(wrong, right)
    assert [(change.match[0], change.start_ns, change.end_ns) for change in changes] == [("c", 0, FOREVER_NS)]
    assert cause_of(changes) == "price"


def test_ranges_are_widened_to_whole_minutes_and_joined_where_they_meet():
    """[61 s, 125 s) is the minutes 1 to 3; [180 s, 200 s) meets it, [400 s, 401 s) does not."""
    s = 1_000_000_000
    changes = [(61 * s, 125 * s, "a"), (180 * s, 200 * s, "b"), (400 * s, 401 * s, "")]
    assert ranges_to_restate(changes) == [
        Range(1 * MINUTE_NS, 4 * MINUTE_NS, ("a", "b")),
        Range(6 * MINUTE_NS, 7 * MINUTE_NS, ()),
    ]
    assert ranges_to_restate([(0, 61 * s, "a"), (0, 61 * s, "")]) == [Range(0, 2 * MINUTE_NS, ())]


def test_windows_were_charged_with_the_greatest_version_active_at_their_start():
    """Version 2 holds from 10, version 3 from 5: version 2 never comes to hold."""
    versions = [PriceBookVersion(number, active) for number, active in ((1, 3), (2, 10), (3, 5))]
    assert [stretch[:] for stretch in held(versions)] == [
        (0, 3, -1),
        (3, 5, 0),
        (5, 10, 2),
        (10, FOREVER_NS, 2),
    ]


def test_a_change_of_the_currency_of_account_changes_everything():
    entries = [PriceEntry("a", "gpu", 1, "USD")]
    rates = "rates: [{from: USD, to: EUR, rate: 1}]\n"
    text = "kind: prices\ncurrency: %s\nprices: [{id: a, per: gpu, price_per_hour: 1, currency: USD}]\n"
    old, new = (read_prices(text % currency + rates, "p.yaml") for currency in ("USD", "EUR"))
    assert spans(price_changes(old, new))[0][1] == (FOREVER_NS - JULY) // HOUR
    assert not price_changes(PriceBookVersion(1, 0, entries=entries), PriceBookVersion(2, 5, entries=entries))


def rule(name: str, start: int = 0, end: int | None = None, **more) -> TeamRule:
    return TeamRule(
        name, name, effective_from_ns=start * MINUTE_NS, effective_to_ns=end and end * MINUTE_NS, **more
    )


def minutes(changes) -> list[tuple[int, int]]:
    return [(start // MINUTE_NS, min(end, 99 * MINUTE_NS) // MINUTE_NS) for start, end in changes]


def test_a_rule_that_is_added_changes_the_time_that_it_holds_for():
    old = TeamMapVersion(1, 0, rules=[rule("a")])
    new = TeamMapVersion(2, 0, rules=[rule("b", 3, 7, namespace="x"), rule("a")])
    assert minutes(team_changes(old, new)) == [(3, 7)]


def test_what_a_rule_is_called_changes_nothing_and_its_order_does():
    old = TeamMapVersion(1, 0, rules=[rule("a"), rule("b")])
    called = TeamMapVersion(2, 0, rules=[TeamRule("other", "a"), TeamRule("names", "b")])
    assert team_changes(old, called) == []
    assert minutes(team_changes(old, TeamMapVersion(2, 0, rules=[rule("b"), rule("a")]))) == [(0, 99)]
    assert minutes(team_changes(old, TeamMapVersion(2, 0, rules=old.rules, default_team="x"))) == [(0, 99)]
    assert minutes(team_changes(None, TeamMapVersion(1, 0, rules=[rule("a", 4)]))) == [(0, 99)]


texts = st.sampled_from(["", "a", "b"])
entries = st.lists(
    st.builds(
        PriceEntry,
        id=st.sampled_from(["p", "q", "r"]),
        per=st.just("gpu"),
        unit_price_nano_per_hour=st.integers(1, 3).map(lambda n: n * 3_600_000_000_000),
        currency=st.just("USD"),
        effective_from_ns=st.integers(0, 5),
        effective_to_ns=st.none() | st.integers(6, 9),
        cluster=texts,
        gpu_model=texts,
        priority=st.integers(0, 1),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(entries, entries, texts, texts)
def test_outside_of_what_changes_every_device_costs_the_same(one, other, cluster, model):
    old, new = PriceBookVersion(1, 0, entries=one), PriceBookVersion(2, 0, entries=other)
    changed = price_changes(old, new)
    device = PricedDevice(cluster=cluster, gpu_model=model)
    for at in range(11):
        if any(change.start_ns <= at < change.end_ns for change in changed):
            continue
        before, after = (PriceBook(book).cost(device, at, at + 1) for book in (old, new))
        assert before == after


def test_the_place_of_entries_in_the_document_changes_nothing():
    """Also where two of them were never checked and apply at once: the lesser id goes first."""
    one, other = (PriceEntry(name, "gpu", 1, "USD", gpu_model="a") for name in ("p", "q"))
    assert (
        price_changes(
            PriceBookVersion(1, 0, entries=[one, other]), PriceBookVersion(2, 0, entries=[other, one])
        )
        == []
    )
