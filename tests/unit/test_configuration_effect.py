"""What a document changes, and to what effect on the past, with values by hand."""

from __future__ import annotations

import pytest

from gpuledger.configuration.diff import Line, diff
from gpuledger.configuration.effect import Effect, LedgerHour, add_price_effect
from gpuledger.configuration.team_effect import add_team_effect
from gpuledger.contract.records import PriceBookVersion, PriceEntry, TeamMapVersion, TeamRule
from gpuledger.pricing.changes import price_changes
from gpuledger.pricing.notices import notices
from gpuledger.pricing.yaml_documents import read_prices, read_teams

HOUR = 3_600_000_000_000
DOLLAR = 1_000_000_000


def hour(**more) -> LedgerHour:
    """An hour of one H100 of team a at 2 dollars, unless said otherwise."""
    told = {
        "hour_ns": 10 * HOUR,
        "cluster": "c",
        "region": "r",
        "zone": "z",
        "instance_type": "p5",
        "capacity_type": "on_demand",
        "gpu_model": "H100",
        "mig_profile": "",
        "device": "gpu",
        "consumer_kind": "pod",
        "namespace": "shop",
        "workload": "Deployment/web",
        "team": "a",
        "price_ids": "p",
        "currency": "USD",
        "total_nano": 2 * DOLLAR,
        "total_ns": HOUR,
        "unpriced_ns": 0,
        "windows_ns": HOUR,
    }
    return LedgerHour(**(told | more))


def prices(*entries: PriceEntry, version: int = 1, active_from_ns: int = 0) -> PriceBookVersion:
    return PriceBookVersion(version, active_from_ns, entries=list(entries))


def effect_of(old: PriceBookVersion, new: PriceBookVersion, *rows: LedgerHour, gpus: int = 1) -> Effect:
    effect = Effect()
    changes = price_changes(old, new)
    add_price_effect(effect, rows, changes, [old], new, {("c", "p5"): gpus})
    return effect


OLD = prices(PriceEntry("p", "gpu", 2 * DOLLAR, "USD", gpu_model="H100"))


def test_a_corrected_price_moves_the_money_of_the_hours_that_it_is_for():
    """Half an hour of team a and an hour of team b at 2, then at 3: 1 -> 1.50 and 2 -> 3; an L4 stays."""
    new = prices(PriceEntry("p", "gpu", 3 * DOLLAR, "USD", gpu_model="H100"), version=2)
    effect = effect_of(
        OLD,
        new,
        hour(total_ns=HOUR // 2, total_nano=DOLLAR),
        hour(team="b"),
        hour(team="l4", gpu_model="L4"),
    )
    assert effect.keys == [("b", "USD"), ("a", "USD")]
    assert (effect.before["a", "USD"], effect.after["a", "USD"]) == (DOLLAR, 3 * DOLLAR // 2)
    assert (effect.before["b", "USD"], effect.after["b", "USD"]) == (2 * DOLLAR, 3 * DOLLAR)


def test_a_price_that_changes_inside_an_hour_counts_for_its_part():
    """3 from half past on: 1 + 1.50."""
    half = 10 * HOUR + HOUR // 2
    new = prices(
        PriceEntry("p", "gpu", 2 * DOLLAR, "USD", gpu_model="H100", effective_to_ns=half),
        PriceEntry("q", "gpu", 3 * DOLLAR, "USD", gpu_model="H100", effective_from_ns=half),
        version=2,
    )
    assert effect_of(OLD, new, hour()).after["a", "USD"] == 5 * DOLLAR // 2
    assert not effect_of(OLD, new, hour(hour_ns=9 * HOUR)).keys


def test_hours_without_a_price_get_money_and_lose_their_missing_time():
    new = prices(*OLD.entries, PriceEntry("l4", "gpu", DOLLAR, "USD", gpu_model="L4"), version=2)
    row = hour(gpu_model="L4", price_ids="", currency="", total_nano=0, unpriced_ns=HOUR)
    effect = effect_of(OLD, new, row)
    assert effect.after["a", "USD"] == DOLLAR
    assert (effect.unpriced_before_ns, effect.unpriced_after_ns) == (HOUR, 0)


def test_hours_whose_price_goes_are_told_as_time_without_a_price():
    effect = effect_of(OLD, prices(version=2), hour())
    assert effect.after["a", "USD"] == 0
    assert effect.unpriced_after_ns == HOUR


@pytest.mark.parametrize(("stated", "gpus"), [(8, 1), (0, 8)])
def test_a_node_price_is_divided_by_its_gpus_and_what_is_not_gpu_is_the_pool_s(stated: int, gpus: int):
    """40 a node of 8 GPUs, 80 % of it theirs: 4 for a GPU's hour, and 1 of each GPU is the pool's."""
    entry = PriceEntry(
        "n",
        "node",
        40 * DOLLAR,
        "USD",
        instance_type="p5",
        gpus_per_node=stated,
        gpu_share_ppb=800_000_000,
        priority=1,
    )
    effect = effect_of(OLD, prices(*OLD.entries, entry, version=2), hour(), gpus=gpus)
    assert effect.after["a", "USD"] == 4 * DOLLAR
    assert effect.after["(pool)", "USD"] == DOLLAR


def test_a_row_of_what_is_not_gpu_costs_its_part_of_the_node():
    """From 20 % to 30 % of 40 an hour: 8 -> 12."""
    old, new = (
        prices(
            PriceEntry("n", "node", 40 * DOLLAR, "USD", gpus_per_node=8, gpu_share_ppb=share), version=version
        )
        for version, share in ((1, 800_000_000), (2, 700_000_000))
    )
    row = hour(device="node", team="(pool)", price_ids="n", total_ns=0, total_nano=8 * DOLLAR)
    assert effect_of(old, new, row).after["(pool)", "USD"] == 12 * DOLLAR


def test_the_node_pool_of_an_hour_is_that_of_the_price_which_it_was_charged_at():
    """The ledger keeps no node pools: the row says p, which is of pool gold alone."""
    old, new = (
        prices(PriceEntry("p", "gpu", amount * DOLLAR, "USD", node_pool="gold"), version=version)
        for version, amount in ((1, 2), (2, 5))
    )
    assert effect_of(old, new, hour()).after["a", "USD"] == 5 * DOLLAR
    assert not effect_of(old, new, hour(price_ids="")).keys


def teams_effect(old: str, new: str, *rows: LedgerHour) -> Effect:
    effect = Effect()
    add_team_effect(effect, rows, [read_teams(old, "old")], read_teams(new, "new"))
    return effect


MAP = """\
kind: teams
rules:
  - {id: by-label, from_label: team, priority: 9}
  - {id: shop, team: %s, match: {namespace: shop}}
"""


def test_a_namespace_that_changes_hands_moves_what_no_label_gave_to_somebody_else():
    """2 dollars of team a follow the rule; 2 of team vision were given by a label, which stays."""
    effect = teams_effect(MAP % "a", MAP % "b", hour(), hour(team="vision"))
    assert {key: effect.after.get(key, 0) for key in effect.keys} == {
        ("a", "USD"): 0,
        ("b", "USD"): 2 * DOLLAR,
    }
    assert not effect.uncertain


def test_what_labels_decide_newly_is_told_as_uncertain():
    new = (MAP % "a") + "  - {id: tier, team: gold, priority: 10, match: {labels: {tier: gold}}}\n"
    effect = teams_effect(MAP % "a", new, hour())
    assert not effect.keys
    assert dict(effect.uncertain) == {"USD": 2 * DOLLAR}


def test_a_rule_for_the_owner_is_decided_by_what_the_ledger_keeps():
    new = "kind: teams\nrules:\n  - {id: web, team: web, match: {owner_kind: Deployment, owner_name: web}}\n"
    effect = teams_effect(
        "kind: teams\nrules:\n  - {id: all, team: a}\n", new, hour(), hour(workload="Job/x")
    )
    assert effect.after["web", "USD"] == 2 * DOLLAR
    assert effect.after["shop", "USD"] == 2 * DOLLAR
    assert effect.before["a", "USD"] == 4 * DOLLAR


def test_a_row_is_compared_with_the_map_that_held_at_its_hour():
    """The map of version 2 already says b from hour 15 on: only what is earlier would move."""
    first = read_teams("kind: teams\nrules:\n  - {id: all, team: a}\n", "1")
    second = read_teams("kind: teams\nrules:\n  - {id: all, team: b}\n", "2")
    second.version, second.active_from_ns = 2, 15 * HOUR
    effect = Effect()
    add_team_effect(effect, [hour(), hour(hour_ns=16 * HOUR, team="b")], [first, second], second)
    assert dict(effect.before) == {("a", "USD"): 2 * DOLLAR}


def test_a_diff_names_what_is_new_what_is_gone_and_each_field_that_is_another():
    old = read_prices(
        "kind: prices\nprices:\n"
        "  - {id: a, per: gpu, price_per_hour: 2, match: {gpu_model: H100}}\n"
        "  - {id: gone, per: gpu, price_per_hour: 1, match: {gpu_model: L4}}\n",
        "old",
    )
    new = read_prices(
        "kind: prices\nprices:\n"
        "  - {id: a, per: gpu, price_per_hour: 2, discount: 0.25, match: {gpu_model: H100}}\n"
        "  - {id: b, per: node, price_per_hour: 8, gpus_per_node: 8, priority: 1, "
        "match: {instance_type: p5}}\n",
        "new",
    )
    assert diff(old, new) == [
        Line("~", "a", "unit_price 2 -> 1.5, discount 0 -> 0.25"),
        Line("+", "b", "per node, unit_price 8, currency USD, instance_type p5, priority 1, gpus_per_node 8"),
        Line("-", "gone", "per gpu, unit_price 1, currency USD, gpu_model L4"),
    ]
    assert diff(new, new) == []


def test_a_diff_of_a_spot_series_counts_its_intervals():
    text = (
        "kind: prices\nspot:\n  - id: s\n    per: gpu\n    known_until: 2025-07-0%d\n"
        "    prices: [{from: 2025-07-01, price_per_hour: 1}%s]\n"
    )
    old = read_prices(text % (3, ""), "old")
    new = read_prices(text % (5, ", {from: 2025-07-04, price_per_hour: 2}"), "new")
    lines = {line.id: line for line in diff(old, new)}
    assert lines["s"] == Line("~", "s", "2 intervals new, 1 gone")
    assert "unit_price 1 -> 2" in lines["s:provisional"].what


def test_a_diff_of_teams_shows_their_order_and_the_default_team():
    old = TeamMapVersion(1, 0, rules=[TeamRule("a", "x"), TeamRule("b", "y")])
    new = TeamMapVersion(
        2, 0, default_team="z", rules=[TeamRule("b", "y"), TeamRule("a", "x", cost_centre="7")]
    )
    assert diff(old, new) == [
        Line("~", "default_team", "(none) -> z"),
        Line("~", "a", "cost_centre (any) -> 7"),
        Line("~", "(order of the rules)", "a, b -> b, a"),
    ]


def noted(text: str) -> str:
    return "\n".join(notices(read_prices(text, "p.yaml")))


def test_where_a_list_has_no_price_is_told_with_what_becomes_of_it():
    text = "kind: prices\nprices:\n  - {id: a, per: gpu, price_per_hour: 1, match: {gpu_model: H100}%s}\n"
    ended = noted(text % ", effective_from: 2025-01-01, effective_to: 2026-01-01")
    assert "gpu_model=H100: no price before 2025-01-01T00:00:00Z; it is charged in GPU time" in ended
    assert "gpu_model=H100: no price from 2026-01-01T00:00:00Z on; it is charged in GPU time" in ended
    assert "A device that none of these prices matches is charged in GPU time" in noted(text % "")
    everything = (text % ", effective_to: 2026-01-01") + "  - {id: b, per: gpu, price_per_hour: 1}\n"
    assert "no price" not in noted(everything)
    assert noted("kind: prices\nprices: []\n").startswith("There is no price at all")


def test_a_list_that_charges_spot_nodes_as_on_demand_says_so():
    """opencost#3725: spot priced as on-demand."""
    text = "kind: prices\nprices:\n  - {id: a, per: gpu, price_per_hour: 1, match: {gpu_model: H100%s}}\n"
    assert "Spot nodes are charged at a too" in noted(text % "")
    assert "Spot nodes" not in noted(text % ", capacity_type: on_demand")
    spot = "  - {id: b, per: gpu, price_per_hour: 0.4, match: {gpu_model: H100, capacity_type: spot}}\n"
    assert "Spot nodes" not in noted((text % "") + spot)


def test_a_series_says_until_when_it_is_known():
    series = "id: s, per: gpu, known_until: 2025-07-02, prices: [{from: 2025-07-01, price_per_hour: 1}]"
    text = f"kind: prices\nspot: [{{{series}}}]\n"
    assert "s: known until 2025-07-02T00:00:00Z; what is later costs its last price" in noted(text)
