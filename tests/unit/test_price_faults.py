"""Faults that tools of this kind had in public, as far as prices and teams are concerned. The right value of
each is worked out by hand in its docstring."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.records import (
    Device,
    Holder,
    NodeLayout,
    Pod,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.pricing import NON_GPU, Consumer, PriceBook, PricedDevice, Prices, TeamMap, Teams
from gpuledger.pricing.restating import Published, restated
from gpuledger.pricing.yaml_documents import read_prices, read_teams
from gpuledger.pricing.yaml_values import instant_ns
from tests.support.charging import START, WINDOW, Calls, gpu, row_of, state, window

S = 1_000_000_000
HOUR = 3600 * S
DOLLAR = 1_000_000_000


def book(*entries: PriceEntry) -> PriceBook:
    return PriceBook(PriceBookVersion(1, 0, entries=list(entries)))


def test_the_split_of_a_node_sums_to_the_node_s_price():
    """opencost#2657, PR#2862. A node of 10.00 an hour with 3 GPUs, 85 % of it theirs: in an hour the GPUs
    share 8.50 (2.833333333 + 2.833333333 + 2.833333334) and 1.50 is not GPU: 10.00 to the nano."""
    prices = book(PriceEntry("n", "node", 10 * DOLLAR, "USD", gpu_share_ppb=850_000_000))
    gpus = [prices.cost_nano(PricedDevice(position=i, gpu_count=3), 0, HOUR) for i in range(3)]
    rest = prices.cost_nano(PricedDevice(position=NON_GPU, gpu_count=3), 0, HOUR)
    assert sorted(gpus) == [2_833_333_333, 2_833_333_333, 2_833_333_334]
    assert rest == 1_500_000_000
    assert sum(gpus) + rest == 10 * DOLLAR


def test_a_price_is_per_hour_and_of_one_gpu():
    """opencost#2029. 3.60 an hour is 0.001 a second: 10 s are 0.01, a day is 86.40, 8 GPUs of it 691.20."""
    prices = book(PriceEntry("g", "gpu", 3_600_000_000, "USD"))
    assert prices.cost_nano(PricedDevice(), START, START + WINDOW) == 10_000_000
    assert prices.cost_nano(PricedDevice(), 0, 24 * HOUR) == 86_400_000_000
    assert prices.node_cost_nano(PricedDevice(gpu_count=8), 0, 24 * HOUR) == 691_200_000_000


def test_a_node_price_is_not_divided_by_a_ratio_that_nobody_stated():
    """OpenCost splits a node without a GPU price by fixed ratios. Without gpu_share all of 16.00 is its 2
    GPUs': 8.00 each, and nothing for the rest."""
    prices = book(PriceEntry("n", "node", 16 * DOLLAR, "USD"))
    assert [prices.cost_nano(PricedDevice(position=i, gpu_count=2), 0, HOUR) for i in (0, 1)] == [
        8 * DOLLAR
    ] * 2
    assert prices.cost_nano(PricedDevice(position=NON_GPU, gpu_count=2), 0, HOUR) == 0


def test_the_idle_of_a_node_without_gpu_pods_does_not_vanish():
    """opencost PR#883. Two GPUs at 3600 an hour that nobody holds: 10 s are 10 each, 20 unallocated."""
    charges = charge_window(
        window([state(NodeLayout(devices=[gpu(0), gpu(1)], gpu_count=2))], [Calls([]).batch()]),
        Prices([PriceBookVersion(1, 0, entries=[PriceEntry("g", "gpu", 3600 * DOLLAR, "USD")])]),
        Teams(),
    )
    free = [row_of(charges, reason="free", device=f"GPU-{i}") for i in (0, 1)]
    assert [row["unallocated_nano"] for row in free] == [10 * DOLLAR, 10 * DOLLAR]
    assert {row["team"] for row in free} == {"(pool)"}


SPOT = """\
kind: prices
prices: [{id: on-demand, per: gpu, price_per_hour: 12, match: {capacity_type: on_demand}}]
spot:
  - {id: spot, per: gpu, known_until: 2025-07-01T%s:00:00Z, prices: [%s]}
"""
AT_ONE = "{from: 2025-07-01T00:00:00Z, price_per_hour: 4}"


def test_spot_is_never_priced_as_on_demand_while_the_feed_lags_and_is_priced_again_when_it_arrives():
    """opencost#3725, #882. Known to 2:00 at 4.00; it is 6:00. The four hours since cost 16, provisionally,
    not 48 as on demand. At 6:00 the feed says 5.00 from 3:00 on: 4 + 3 x 5 = 19, for good, and 2:00 to 6:00
    is what is announced."""
    july = instant_ns("2025-07-01")
    device = PricedDevice(capacity_type="spot")
    first = read_prices(SPOT % ("02", AT_ONE), "p.yaml")
    lagging = PriceBook(first).cost(device, july + 2 * HOUR, july + 6 * HOUR)
    assert (lagging.nano, lagging.provisional) == (16 * DOLLAR, True)
    second = read_prices(
        SPOT % ("06", AT_ONE + ", {from: 2025-07-01T03:00:00Z, price_per_hour: 5}"), "p.yaml"
    )
    known = PriceBook(second).cost(device, july + 2 * HOUR, july + 6 * HOUR)
    assert (known.nano, known.provisional) == (19 * DOLLAR, False)
    second.version, second.active_from_ns = 2, july + 6 * HOUR
    (found,) = restated(Published([first, second]), second, None)
    assert (found.range.from_ns, found.range.to_ns) == (july + 2 * HOUR, july + 6 * HOUR)
    assert found.cause == "late_price"


def test_a_node_that_is_spot_for_a_time_is_charged_by_intervals():
    """Two hours as spot at 4.00 and one on demand at 12.00 are 20, not 3 x 12 and not 3 x 4."""
    july = instant_ns("2025-07-01")
    prices = PriceBook(read_prices(SPOT % ("09", AT_ONE), "p.yaml"))
    spot = prices.cost_nano(PricedDevice(capacity_type="spot"), july, july + 2 * HOUR)
    later = prices.cost_nano(PricedDevice(capacity_type="on_demand"), july + 2 * HOUR, july + 3 * HOUR)
    assert spot + later == 20 * DOLLAR


def test_two_runs_of_a_pod_cost_what_they_ran_and_not_the_time_between():
    """12:00 to 17:00 and 19:00 to 22:00 are 480 minutes, not 600: at 2.00 an hour 16.00, not 20.00."""
    prices = book(PriceEntry("g", "gpu", 2 * DOLLAR, "USD"))
    noon = instant_ns("2025-07-01T12:00:00Z")
    runs = [(noon, noon + 5 * HOUR), (noon + 7 * HOUR, noon + 10 * HOUR)]
    assert sum(prices.cost_nano(PricedDevice(), start, end) for start, end in runs) == 16 * DOLLAR
    assert sum(PricedDevice().gpu_ns(start, end) for start, end in runs) == 480 * 60 * S


@pytest.mark.parametrize(("cluster", "team", "price"), [("east", "vision", 3), ("west", "search", 2)])
def test_one_namespace_in_two_clusters_is_two_teams_at_two_prices(cluster: str, team: str, price: int):
    """opencost#2979, koku#711. Namespace `train` is vision's in east and search's in west; an hour costs 3 in
    east and 2 elsewhere."""
    teams = TeamMap(
        read_teams(
            "kind: teams\nrules:\n"
            "  - {id: e, team: vision, match: {cluster: east, namespace: train}}\n"
            "  - {id: w, team: search, match: {cluster: west, namespace: train}}\n",
            "t.yaml",
        )
    )
    assert teams.team_of(Consumer(cluster=cluster, namespace="train"), HOUR).team == team
    prices = book(
        PriceEntry("any", "gpu", 2 * DOLLAR, "USD"),
        PriceEntry("east", "gpu", 3 * DOLLAR, "USD", cluster="east"),
    )
    assert prices.cost_nano(PricedDevice(cluster=cluster), 0, HOUR) == price * DOLLAR


@pytest.mark.parametrize(
    ("months", "team"), [("2025-06-30T23:59:00Z", "old"), ("2025-07-01T00:00:00Z", "new")]
)
def test_a_past_hour_belongs_to_the_team_of_then(months: str, team: str):
    """Other tools map with the labels and rules of now. The namespace changed hands on 1 July: June stays the
    old team's, whenever it is charged."""
    teams = TeamMap(
        read_teams(
            "kind: teams\nrules:\n"
            "  - {id: until, team: old, match: {namespace: n}, effective_to: 2025-07-01}\n"
            "  - {id: since, team: new, match: {namespace: n}, effective_from: 2025-07-01}\n",
            "t.yaml",
        )
    )
    assert teams.team_of(Consumer(namespace="n"), instant_ns(months)).team == team


def test_what_nobody_claims_is_shown_as_the_default_team_s():
    """A pod in a namespace of no rule: its 10 are `unclaimed`'s, and neither lost nor somebody else's."""
    teams = TeamMapVersion(1, 0, default_team="unclaimed", rules=[TeamRule("r", "a", namespace="theirs")])
    charges = charge_window(
        window(
            [state(NodeLayout(devices=[gpu()]), [Holder("x", 0)], pods=[Pod("x", "nobodys", "p")])],
            [Calls([]).batch()],
        ),
        Prices([PriceBookVersion(1, 0, entries=[PriceEntry("g", "gpu", 3600 * DOLLAR, "USD")])]),
        Teams([teams]),
    )
    row = row_of(charges, "x")
    assert (row["team"], row["held_idle_nano"]) == ("unclaimed", 10 * DOLLAR)


@pytest.mark.parametrize("profile", ["1g.12gb", "1g.11gb", ""])
def test_what_a_mig_profile_is_called_decides_no_price(profile: str):
    """dcgm-exporter#544: the profile of one instance is 1g.12gb in a label and 1g.11gb in a resource. One
    slice of 7 of a GPU at 7 x 3600 an hour costs 10 in 10 s under either name."""
    layout = NodeLayout(
        devices=[
            Device("GPU-0", index=0, model="H100 NVL", sharing="mig", slices_total=7),
            Device(
                "MIG-a",
                parent_uuid="GPU-0",
                gpu_instance=1,
                model="H100 NVL",
                mig_profile=profile,
                slices=1,
                slices_total=7,
            ),
        ]
    )
    charges = charge_window(
        window([state(layout, [Holder("x", 1)])], [Calls([]).batch()]),
        Prices([PriceBookVersion(1, 0, entries=[PriceEntry("g", "gpu", 7 * 3600 * DOLLAR, "USD")])]),
        Teams(),
    )
    assert row_of(charges, "x", device="MIG-a")["held_idle_nano"] == 10 * DOLLAR


def test_a_discount_is_inside_the_unit_price_and_a_currency_inside_the_rate():
    """12.29 less 15 % is 10.4465 euros; at 1.10 dollars that is 11.49115 an hour: 8 hours are 91.9292."""
    text = (
        "kind: prices\nprices:\n  - {id: e, per: gpu, price_per_hour: 12.29, discount: 0.15, currency: EUR}\n"
        "rates: [{from: EUR, to: USD, rate: 1.10}]\n"
    )
    assert PriceBook(read_prices(text, "p.yaml")).cost_nano(PricedDevice(), 0, 8 * HOUR) == 91_929_200_000


def test_unit_price_times_quantity_is_the_cost():
    """FOCUS: 98.32 for a node of 8 is 12.29 a GPU-hour; 36.5 GPU-hours are 448.585."""
    prices = book(PriceEntry("n", "node", 98_320_000_000, "USD"))
    device = PricedDevice(gpu_count=8)
    assert prices.cost_nano(device, 0, 36 * HOUR + HOUR // 2) == 448_585_000_000
