"""What is charged without a price, and with one that is not known yet: never 0 as if free."""

from __future__ import annotations

from gpuledger.attribution import charge_window
from gpuledger.contract.money import cost
from gpuledger.contract.records import Holder, NodeLayout, PriceBookVersion, PriceEntry
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Prices, Teams
from tests.support.charging import START, WINDOW, Calls, S, gpu, row_of, state, window

DOLLAR = 1_000_000_000


def charged(*entries: PriceEntry):
    records = window([state(NodeLayout(devices=[gpu()]), [Holder("x", 0)])], [Calls([]).batch()])
    return charge_window(records, Prices([PriceBookVersion(1, 0, entries=list(entries))]), Teams())


def test_a_device_without_a_price_is_charged_in_gpu_time_with_its_money_missing():
    """10 s of an idle GPU that x holds: 10 s held idle, none of it priced."""
    row = row_of(charged(PriceEntry("other", "gpu", DOLLAR, "USD", gpu_model="another")), "x")
    assert (row["held_idle_ns"], row["unpriced_ns"], row["priced"]) == (WINDOW, WINDOW, 0)
    assert (row["currency"], row["price_ids"]) == ("", "")


def test_a_price_of_0_is_a_price():
    row = row_of(charged(PriceEntry("free", "gpu", 0, "USD")), "x")
    assert (row["unpriced_ns"], row["priced"], row["currency"]) == (0, 1, "USD")


def test_a_price_that_begins_inside_the_window_leaves_the_rest_without_one():
    """Priced for 4 of 10 s at 3600 an hour: 4 dollars, and 6 s that the money leaves out."""
    row = row_of(charged(PriceEntry("p", "gpu", 3600 * DOLLAR, "USD", effective_from_ns=START + 6 * S)), "x")
    assert (row["held_idle_nano"], row["unpriced_ns"], row["priced"]) == (4 * DOLLAR, 6 * S, 1)


def test_money_at_the_last_known_price_of_a_series_is_flagged_on_the_row():
    """opencost#3725: known until 3 s into the window, at 3600 an hour; all of it costs that, and says so."""
    known = PriceEntry("spot", "gpu", 3600 * DOLLAR, "USD", effective_to_ns=START + 3 * S, kind="spot")
    later = PriceEntry(
        "spot:provisional",
        "gpu",
        3600 * DOLLAR,
        "USD",
        effective_from_ns=START + 3 * S,
        kind="spot",
        provisional=True,
    )
    row = row_of(charged(known, later), "x")
    assert row["held_idle_nano"] == cost(3600 * DOLLAR, START, START + WINDOW)
    assert Flag(row["flags"]) & Flag.PRICE_PROVISIONAL
    assert row["price_ids"] == "spot,spot:provisional"
    certain = row_of(charged(PriceEntry("spot", "gpu", DOLLAR, "USD", kind="spot")), "x")
    assert not Flag(certain["flags"]) & Flag.PRICE_PROVISIONAL
