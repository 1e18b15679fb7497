"""What a device costs, and how a price is split, with values by hand."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.errors import Refused
from gpuledger.contract.money import cost
from gpuledger.contract.records import (
    CurrencyRate,
    Device,
    Holder,
    NodeLayout,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.pricing import NON_GPU, Consumer, PriceBook, PricedDevice, Prices, TeamMap, Teams
from tests.support.charging import START, WINDOW, Calls, S, gpu, prices, row_of, state, window

HOUR = 3600 * S
DOLLAR = 1_000_000_000


def book(*entries: PriceEntry, **more) -> PriceBook:
    return PriceBook(PriceBookVersion(1, 0, entries=list(entries), **more))


def test_an_hour_costs_the_price_of_an_hour():
    priced = book(PriceEntry("a", "gpu", 12_290_000_000, "USD"))
    assert priced.cost_nano(PricedDevice(), 7 * HOUR, 8 * HOUR) == 12_290_000_000
    assert priced.cost_nano(Device("GPU-0", index=0), 7 * HOUR, 8 * HOUR) == 12_290_000_000


def test_a_price_that_changes_inside_an_interval_is_summed_over_its_parts():
    """1 dollar until half past, 3 after it: 50 cents and 1 dollar 50."""
    half = HOUR + HOUR // 2
    priced = book(
        PriceEntry("a", "gpu", 1 * DOLLAR, "USD", effective_to_ns=half),
        PriceEntry("b", "gpu", 3 * DOLLAR, "USD", effective_from_ns=half),
    )
    found = priced.cost(PricedDevice(), HOUR, 2 * HOUR)
    assert (found.nano, found.unpriced_ns, found.entry_ids) == (2 * DOLLAR, 0, ("a", "b"))


def test_time_without_a_price_is_told_apart_from_time_that_is_free():
    priced = book(PriceEntry("late", "gpu", 0, "USD", effective_from_ns=HOUR + HOUR // 4))
    found = priced.cost(PricedDevice(), HOUR, 2 * HOUR)
    assert (found.nano, found.unpriced_ns, found.priced) == (0, HOUR // 4, True)
    assert not PriceBook.empty().cost(PricedDevice(), HOUR, 2 * HOUR).priced


def test_priority_wins_then_the_more_attributes_that_match():
    priced = book(
        PriceEntry("any", "gpu", 1, "USD"),
        PriceEntry("model", "gpu", 2, "USD", gpu_model="H100"),
        PriceEntry("model-region", "gpu", 3, "USD", gpu_model="H100", region="r"),
        PriceEntry("first", "gpu", 4, "USD", cluster="c", priority=1),
    )

    def chosen(**more: str) -> str:
        entry = priced.entry(PricedDevice(**more), HOUR)
        assert entry is not None
        return entry.id

    assert chosen(gpu_model="L4") == "any"
    assert chosen(gpu_model="H100") == "model"
    assert chosen(gpu_model="H100", region="r") == "model-region"
    assert chosen(gpu_model="H100", region="r", cluster="c") == "first"


def test_a_node_price_is_split_over_its_gpus_and_what_is_not_gpu():
    """3 dollars a node, 70 % GPU, three GPUs: the parts of any interval sum to it."""
    entry = PriceEntry("n", "node", 3 * DOLLAR + 1, "USD", gpu_share_ppb=700_000_000)
    priced = book(entry)
    for start, end in ((HOUR, 2 * HOUR), (START, START + WINDOW), (START + 1, START + 2)):
        gpus = [priced.cost_nano(PricedDevice(position=i, gpu_count=3), start, end) for i in range(3)]
        rest = priced.cost_nano(PricedDevice(position=NON_GPU, gpu_count=3), start, end)
        assert sum(gpus) + rest == cost(3 * DOLLAR + 1, start, end)
        assert max(gpus) - min(gpus) <= 1
    assert priced.cost_nano(PricedDevice(position=0, gpu_count=3), 0, HOUR) == 700_000_000


def test_an_entry_in_another_currency_is_converted_at_the_dated_rate_half_even():
    """1 euro is 1.1 dollars, later 1.2."""
    priced = book(
        PriceEntry("eur", "gpu", 10 * DOLLAR, "EUR"),
        rates=[
            CurrencyRate("EUR", "USD", 0, 1_100_000_000),
            CurrencyRate("EUR", "USD", 2 * HOUR, 1_200_000_000),
        ],
    )
    assert priced.cost_nano(PricedDevice(), HOUR, 2 * HOUR) == 11 * DOLLAR
    assert priced.cost_nano(PricedDevice(), 2 * HOUR, 3 * HOUR) == 12 * DOLLAR
    assert priced.pieces(PricedDevice(), HOUR, HOUR + 1)[0].unit_price_nano_per_hour == 11 * DOLLAR


def test_a_window_takes_the_greatest_version_active_at_its_start_or_the_pinned_one():
    versions = [
        PriceBookVersion(1, 0, entries=[PriceEntry("a", "gpu", 1, "USD")]),
        PriceBookVersion(2, HOUR, entries=[PriceEntry("b", "gpu", 1, "USD")]),
        PriceBookVersion(2, HOUR, entries=[PriceEntry("second of the same number", "gpu", 1, "USD")]),
    ]
    held = Prices(versions)
    assert held.at(HOUR - 1).version == 1
    assert held.at(HOUR).entries[0].id == "b"
    assert held.at(HOUR, 1).version == 1
    assert Prices([]).at(HOUR).version == 0
    with pytest.raises(Refused, match="version 3"):
        held.at(HOUR, 3)


def test_mig_instances_are_the_sum_of_their_units_and_the_rest_is_free():
    """3 and 2 of 7 units of a dollar GPU for 10 s: 2 777 778 nano in units of 1/7, two units free."""
    parts = [
        Device("GPU-0", index=0, model="A100", sharing="mig", slices_total=7),
        Device("MIG-a", parent_uuid="GPU-0", gpu_instance=1, slices=3, slices_total=7, model="A100"),
        Device("MIG-b", parent_uuid="GPU-0", gpu_instance=2, slices=2, slices_total=7, model="A100"),
    ]
    charges = charge_window(
        window([state(NodeLayout(devices=parts), [Holder("x", 1)])], [Calls([]).batch()]),
        prices(PriceEntry("d", "gpu", DOLLAR, "USD")),
        Teams(),
    )
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    held = row_of(charges, "x", device="MIG-a")
    free = row_of(charges, reason="free", device="GPU-0")
    other = row_of(charges, reason="free", device="MIG-b")
    assert held["held_idle_ns"] == pytest.approx(3 * WINDOW / 7, abs=3)
    assert other["unallocated_ns"] == pytest.approx(2 * WINDOW / 7, abs=2)
    assert free["unallocated_ns"] == pytest.approx(2 * WINDOW / 7, abs=2)
    assert held.total_nano + other.total_nano + free.total_nano == cost(DOLLAR, START, START + WINDOW)


def test_what_of_a_node_is_not_gpu_is_a_row_of_the_node_without_gpu_time():
    layout = NodeLayout(instance_type="t", devices=[gpu(0), gpu(1)], gpu_count=2)
    charges = charge_window(
        window([state(layout)], [Calls([]).batch()]),
        prices(PriceEntry("n", "node", 10 * DOLLAR, "USD", instance_type="t", gpu_share_ppb=800_000_000)),
        Teams(),
    )
    assert charges.conservation_error_nano == 0
    row = row_of(charges, device="node", reason="non_gpu")
    assert row.total_ns == 0
    assert row["unallocated_nano"] == pytest.approx(10 * DOLLAR * 10 / 3600 * 0.2, abs=1)


def test_time_without_a_price_stands_in_gpu_time_alone():
    charges = charge_window(window([state(NodeLayout(devices=[gpu()]))]), Prices(), Teams())
    row = row_of(charges, reason="free")
    assert (row["priced"], row["unpriced_ns"], row.total_nano) == (0, WINDOW, 0)


def test_a_price_change_inside_a_window_applies_the_shares_to_the_summed_cost():
    """Free for 4 s, then 3600 dollars an hour for 6 s: 6 dollars, held idle."""
    change = START + 4 * S
    charges = charge_window(
        window([state(NodeLayout(devices=[gpu()]), [Holder("x", 0)])], [Calls([]).batch()]),
        prices(
            PriceEntry("a", "gpu", 0, "USD", effective_to_ns=change),
            PriceEntry("b", "gpu", 3600 * DOLLAR, "USD", effective_from_ns=change),
        ),
        Teams(),
    )
    assert row_of(charges, "x")["held_idle_nano"] == 6 * DOLLAR
    assert row_of(charges, "x")["price_ids"] == "a,b"


POD = Consumer(
    "pod", namespace="research-1", labels={"team": "vision"}, owner_kind="Job", owner_name="train-7"
)


@pytest.mark.parametrize(
    ("rules", "consumer", "team"),
    [
        ([], POD, "vision"),
        ([], Consumer("pod", namespace="web"), "web"),
        ([], Consumer("host_process"), "(host)"),
        ([], Consumer("pool"), "(pool)"),
        ([TeamRule("r", "research", namespace="research-*")], POD, "research"),
        ([TeamRule("r", "research", namespace="other")], POD, "research-1"),
        ([TeamRule("r", label_key="team")], POD, "vision"),
        ([TeamRule("r", "jobs", owner_kind="Job", owner_name="train-*")], POD, "jobs"),
        ([TeamRule("r", "a"), TeamRule("s", "b", priority=1)], POD, "b"),
        ([TeamRule("r", "a"), TeamRule("s", "b")], POD, "a"),
        ([TeamRule("r", "late", effective_from_ns=HOUR + 1)], POD, "research-1"),
        ([TeamRule("r", "everyone")], Consumer("pool"), "(pool)"),
        ([TeamRule("r", "platform", consumer_kind="pool")], Consumer("pool"), "platform"),
        ([TeamRule("r", "x", labels={"tier": ""})], POD, "research-1"),
    ],
)
def test_whose_team_a_consumer_is(rules, consumer, team):
    assert TeamMap(TeamMapVersion(1, 0, rules=rules)).team_of(consumer, HOUR).team == team


def test_node_without_any_gpu_costs_its_whole_price():
    prices = book(PriceEntry("n", "node", 36 * DOLLAR, "USD", gpu_share_ppb=800_000_000))
    rest = PricedDevice(position=NON_GPU, gpu_count=0)
    assert prices.cost_nano(rest, 0, HOUR) == 36 * DOLLAR
    assert prices.cost_nano(rest.with_gpus(1), 0, HOUR) == 36 * DOLLAR // 5
