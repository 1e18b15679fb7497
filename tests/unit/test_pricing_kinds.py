"""Spot series, owned hardware and commitments as entries of the book, with values by hand."""

from __future__ import annotations

import pytest

from gpuledger.contract.records import PriceBookVersion, PriceEntry, decode, encode
from gpuledger.pricing import NON_GPU, PriceBook, PricedDevice
from gpuledger.pricing.yaml_documents import InvalidDocument, read_prices
from gpuledger.pricing.yaml_values import instant_ns

HOUR = 3_600_000_000_000
DOLLAR = 1_000_000_000
JULY = instant_ns("2025-07-01")

SPOT = """\
kind: prices
prices:
  - {id: on-demand, per: node, price_per_hour: 40, gpus_per_node: 8, match: {instance_type: p5}}
spot:
  - id: p5-spot
    per: node
    gpus_per_node: 8
    match: {instance_type: p5, zone: z}
    known_until: 2025-07-01T03:00:00Z
    prices:
      - {from: 2025-07-01T00:00:00Z, price_per_hour: 16}
      - {from: 2025-07-01T02:00:00Z, price_per_hour: 24}
"""
OWNED = """\
kind: prices
owned:
  - id: dgx
    per: node
    gpus_per_node: 8
    purchase_price: 350400
    residual_value: 87600
    in_service: 2025-07-01
    lifetime_years: 3
    watts: 10000
    power_price_per_kwh: 0.20
    overhead: 0.25
"""


def book(text: str) -> PriceBook:
    return PriceBook(read_prices(text, "p.yaml"))


def problem(text: str) -> str:
    with pytest.raises(InvalidDocument) as caught:
        read_prices(text, "p.yaml")
    (found,) = caught.value.problems
    return found


def p5(capacity: str) -> PricedDevice:
    return PricedDevice(instance_type="p5", zone="z", capacity_type=capacity, gpu_count=8)


def test_a_spot_node_is_charged_by_intervals_and_one_on_demand_is_not():
    """Two hours at 16 and one at 24 are 56 for the node, 7 for one of 8 GPUs; on demand it is 3 x 40 / 8."""
    prices = book(SPOT)
    spot = prices.cost(p5("spot"), JULY, JULY + 3 * HOUR)
    assert (spot.nano, spot.entry_ids, spot.provisional) == (7 * DOLLAR, ("p5-spot",), False)
    assert prices.cost_nano(p5("on_demand"), JULY, JULY + 3 * HOUR) == 15 * DOLLAR


def test_time_that_a_spot_series_does_not_know_yet_costs_the_last_known_price_and_says_so():
    """Known until 3:00; from 2:30 to 3:30 at 24 is 24 for the node, 3 for a GPU, and provisional."""
    found = book(SPOT).cost(p5("spot"), JULY + 5 * HOUR // 2, JULY + 7 * HOUR // 2)
    assert (found.nano, found.provisional) == (3 * DOLLAR, True)
    assert found.entry_ids == ("p5-spot", "p5-spot:provisional")


def test_a_spot_series_that_has_ended_leaves_nothing_provisional():
    text = SPOT + "    effective_to: 2025-07-01T03:00:00Z\n"
    prices = book(text)
    assert not any(entry.provisional for entry in prices.entries)
    entry = prices.entry(p5("spot"), JULY + 4 * HOUR)
    assert entry is not None
    assert entry.id == "on-demand"


def test_a_node_that_no_label_calls_spot_is_priced_as_on_demand():
    text = (
        "kind: prices\nprices:\n  - {id: a, per: gpu, price_per_hour: 2, match: {capacity_type: On-Demand}}\n"
    )
    prices = book(text)
    assert prices.cost_nano(PricedDevice(), 0, HOUR) == 2 * DOLLAR
    assert prices.cost_nano(PricedDevice(capacity_type="on_demand"), 0, HOUR) == 2 * DOLLAR
    assert not prices.cost(PricedDevice(capacity_type="spot"), 0, HOUR).priced


def test_a_spot_series_that_matches_everything_is_for_spot_nodes_alone():
    """Without any ``match``: a node on demand costs 2 an hour beside it, not the spot market's 0.50."""
    prices = book(
        "kind: prices\nprices:\n  - {id: list, per: gpu, price_per_hour: 2}\n"
        "spot:\n  - {id: s, per: gpu, known_until: 2030-01-01, "
        "prices: [{from: 2025-01-01, price_per_hour: 0.5}]}\n"
    )
    assert prices.cost_nano(PricedDevice(capacity_type="on_demand"), JULY, JULY + HOUR) == 2 * DOLLAR
    assert prices.cost_nano(PricedDevice(), JULY, JULY + HOUR) == 2 * DOLLAR
    assert prices.cost_nano(PricedDevice(capacity_type="spot"), JULY, JULY + HOUR) == DOLLAR // 2


def test_owned_hardware_costs_depreciation_and_power_with_overhead():
    """(350,400 - 87,600) / (3 x 8,760 h) = 10 an hour; 10 kW x 0.20 = 2; x 1.25 = 15 an hour, 1.875 a GPU."""
    prices = book(OWNED)
    assert prices.entries[0].unit_price_nano_per_hour == 15 * DOLLAR
    device = PricedDevice(gpu_count=8)
    assert prices.cost_nano(device, JULY, JULY + HOUR) == 1_875_000_000
    assert prices.entries[0].details["power_price_per_kwh"] == "0.200000000"
    assert not prices.cost(device, JULY - HOUR, JULY).priced


def test_hardware_that_is_written_off_costs_power_and_overhead_alone():
    """After 3 x 8,760 h the purchase is charged in full: 2 x 1.25 = 2.50 an hour."""
    prices = book(OWNED)
    end = JULY + 3 * 8760 * HOUR
    node = PricedDevice(position=0, gpu_count=1)
    assert prices.cost_nano(node, end - HOUR, end) == 15 * DOLLAR
    assert prices.cost_nano(node, end, end + HOUR) == 2_500_000_000
    assert prices.cost(node, end, end + HOUR).entry_ids == ("dgx:written-off",)
    whole = prices.node_cost_nano(PricedDevice(gpu_count=8), JULY, end)
    assert whole == 15 * DOLLAR * 3 * 8760


def test_a_commitment_goes_before_what_is_bought_by_the_hour():
    text = SPOT + (
        "commitments:\n"
        "  - {id: reserved, per: node, quantity: 4, price_per_hour: 24, gpus_per_node: 8,\n"
        "     match: {instance_type: p5, node_pool: committed},\n"
        "     effective_from: 2025-07-01, effective_to: 2026-07-01}\n"
    )
    prices = book(text)
    device = PricedDevice(instance_type="p5", node_pool="committed", zone="z", gpu_count=8)
    entry = prices.entry(device, JULY)
    assert entry is not None
    assert (entry.id, entry.kind, entry.commitment, entry.commitment_quantity) == (
        "reserved",
        "commitment",
        "reserved",
        4,
    )
    assert prices.cost_nano(device, JULY, JULY + HOUR) == 3 * DOLLAR
    after = prices.entry(device, instant_ns("2026-07-01"))
    assert after is not None
    assert after.id == "on-demand"


def test_every_kind_of_price_divides_a_node_into_parts_that_sum_to_it():
    """opencost#2657: 30 % of a spot node is not GPU; the eight GPUs and the rest sum to 24, to the nano."""
    prices = book(SPOT.replace("    per: node\n", "    per: node\n    gpu_share: 0.7\n"))
    start, end = JULY + 2 * HOUR + 7, JULY + 3 * HOUR - 11
    device = p5("spot")
    parts = [
        prices.cost_nano(
            PricedDevice(instance_type="p5", zone="z", capacity_type="spot", position=position, gpu_count=8),
            start,
            end,
        )
        for position in (*range(8), NON_GPU)
    ]
    assert sum(parts) == prices.node_cost_nano(device, start, end)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("02:00:00Z, price_per_hour: 24", "00:00:00Z, price_per_hour: 24", 5, "in order of time"),
        ("T03:00:00Z", "T02:00:00Z", 5, "known_until is not after"),
        ("zone: z}", "zone: z, capacity_type: on_demand}", 8, "capacity_type spot"),
        ("    per: node\n", "    per: gpu\n", 5, "belong to a price per node"),
    ],
)
def test_a_spot_series_that_makes_no_sense_is_refused_with_its_line(old, new, line, what):
    found = problem(SPOT.replace(old, new))
    assert found.startswith(f"p.yaml:{line}: ")
    assert what in found


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("residual_value: 87600", "residual_value: 350401", "above purchase_price"),
        ("overhead: 0.25", "overhead: 25", "from 0 to 10"),
        ("lifetime_years: 3", "lifetime_years: 0", "greater than or equal to 1"),
        ("    in_service: 2025-07-01\n", "", "required"),
    ],
)
def test_hardware_that_makes_no_sense_is_refused(old, new, what):
    assert what in problem(OWNED.replace(old, new))


def test_two_series_for_one_market_are_refused_at_the_interval_where_they_meet():
    """The first is known until 3:00, the second begins at 2:30."""
    other = (
        "  - id: again\n    per: node\n    match: {instance_type: p5, zone: z}\n"
        "    known_until: 2025-07-02\n    prices: [{from: 2025-07-01T02:30:00Z, price_per_hour: 1}]\n"
    )
    with pytest.raises(InvalidDocument) as caught:
        read_prices(SPOT + other, "p.yaml")
    assert caught.value.problems[0].startswith(
        "p.yaml:17: again and p5-spot both apply to one device from 2025-"
    )


def test_ids_of_two_kinds_of_price_must_differ():
    owned = "owned:\n" + OWNED.split("owned:\n")[1].replace("id: dgx", "id: p5-spot\n    priority: 5")
    assert "the id p5-spot is there twice" in problem(SPOT + owned)


def test_what_is_provisional_and_committed_survives_the_wire():
    version = read_prices(SPOT, "p.yaml")
    assert decode(PriceBookVersion, encode(version)) == version
    assert [entry.provisional for entry in version.entries] == [False, False, False, True]


def test_a_book_keeps_no_more_timelines_than_it_may():
    """Each kind of device has one piece; of 50 kinds only the last 10 are kept, and all cost the same."""
    prices = PriceBook(PriceBookVersion(1, 0, entries=[PriceEntry("a", "gpu", DOLLAR, "USD")]), 10)
    for number in [*range(50), *range(50)]:
        assert prices.cost_nano(PricedDevice(node_pool=f"pool-{number}"), 0, HOUR) == DOLLAR
    assert len(prices._timelines) == 10
    assert prices._kept_pieces == 10


def test_a_timeline_that_is_larger_than_what_may_be_kept_still_answers():
    entries = [
        PriceEntry(
            "s", "gpu", number, "USD", effective_from_ns=number, effective_to_ns=number + 1, kind="spot"
        )
        for number in range(100)
    ]
    prices = PriceBook(PriceBookVersion(1, 0, entries=entries), 10)
    assert [piece.unit_price_nano_per_hour for piece in prices.pieces(PricedDevice(), 40, 43)] == [40, 41, 42]
    assert prices.pieces(PricedDevice(), 99, 102)[-1].entry is None
