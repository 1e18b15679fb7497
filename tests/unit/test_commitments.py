"""What is paid for whether it is used or not, with values by hand."""

from __future__ import annotations

import pytest

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NO_NODE, NodeKey
from gpuledger.contract.records import ChargeSet, decode, encode
from gpuledger.contract.revision import MAX_INPUTS, Revision
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.commitments import MAX_COUNTED_INPUTS, Held, Minute, Usage, news, unused_rows, usage
from gpuledger.pricing.yaml_documents import InvalidDocument, read_prices
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.sink.meaning import check

JULY = instant_ns("2025-07-01")
DOLLAR = 1_000_000_000
TEXT = """\
kind: prices
prices: [{id: list, per: gpu, price_per_hour: 9}]
commitments:
  - id: four
    per: node
    quantity: 4
    price_per_hour: 60
    match: {node_pool: reserved}
    effective_from: 2025-07-01
    effective_to: 2025-07-01T00:02:00Z
  - id: ten
    per: gpu
    quantity: 10
    price_per_hour: 6
    match: {node_pool: more}
    effective_from: 2025-07-01T00:01:00Z
    effective_to: 2026-07-01
"""
BOOK = read_prices(TEXT, "p.yaml")


def minute(number: int = 0, **used: int) -> Minute:
    return Minute(JULY + number * MINUTE_NS, generation=2, inputs=30, used_nano=used)


def test_what_was_committed_to_and_not_used_is_the_rest_of_quantity_times_price():
    """Four nodes at 60 an hour are 4 a minute; three of them ran: 3 used, 1 unused."""
    assert usage(BOOK, minute(four=3 * DOLLAR)) == [Usage("four", 4 * DOLLAR, 3 * DOLLAR)]
    assert usage(BOOK, minute(four=3 * DOLLAR))[0].unused_nano == 1 * DOLLAR


def test_each_commitment_holds_for_its_own_time():
    """`four` ends at minute 2, `ten` (10 x 6 an hour: 1 a minute) begins at minute 1."""
    held = [[(one.id, one.committed_nano) for one in usage(BOOK, minute(number))] for number in range(3)]
    assert held == [
        [("four", 4 * DOLLAR)],
        [("four", 4 * DOLLAR), ("ten", DOLLAR)],
        [("ten", DOLLAR)],
    ]


def test_more_at_a_rate_than_was_committed_to_is_told_and_is_no_negative_row():
    """Five nodes match the rule: 5 used of 4, 1 over, and nothing unused."""
    (one,) = usage(BOOK, minute(four=5 * DOLLAR))
    assert (one.unused_nano, one.over_nano) == (0, DOLLAR)
    assert len(unused_rows(BOOK, minute(four=5 * DOLLAR)).device) == 0


def test_what_was_not_used_is_a_row_of_no_node_for_each_commitment():
    found = unused_rows(BOOK, minute(1, four=1 * DOLLAR))
    check(found, NO_NODE.key)
    assert len(decode(ChargeSet, encode(found)).device) == 2
    rows = [
        {name: found.texts[getattr(found, name)[row]] for name in ("consumer", "reason", "team", "currency")}
        | {"unallocated": int(found.unallocated_nano[row]), "priced": int(found.priced[row])}
        for row in range(2)
    ]
    told = {"reason": "commitment", "team": "(pool)", "currency": "USD", "priced": 1}
    assert rows == [
        told | {"consumer": "four", "unallocated": 3 * DOLLAR},
        told | {"consumer": "ten", "unallocated": 1 * DOLLAR},
    ]
    assert (found.cluster, found.node, found.window_length_ns, found.booking_period) == (
        "-",
        "-",
        MINUTE_NS,
        "2025-07",
    )
    assert (found.generation, found.inputs) == (2, 30)
    assert not found.unallocated_ns.any()


def test_the_same_minute_gives_the_same_bytes_and_another_amount_another_digest():
    one, same, other = (unused_rows(BOOK, minute(four=nano)) for nano in (DOLLAR, DOLLAR, 2 * DOLLAR))
    assert encode(one) == encode(same)
    assert one.digest != other.digest


def rank(charges: ChargeSet) -> int:
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed


def test_what_the_ledger_says_already_is_no_news_whatever_it_was_computed_from():
    """3 of 4 used: 1 unused, in dollars. The same amount in another currency is another row."""
    one = minute(four=3 * DOLLAR)
    first = news(BOOK, one, None)
    assert first is not None
    assert encode(first) == encode(unused_rows(BOOK, one))
    held = Held(rank(first), {("four", "USD"): DOLLAR})
    assert news(BOOK, one, held) is None
    assert news(BOOK, one._replace(inputs=900, generation=9), held) is None
    assert news(BOOK, one, held._replace(unused_nano={("four", "EUR"): DOLLAR})) is not None
    assert news(BOOK, minute(four=4 * DOLLAR), None) is None  # all is used, and no row is there


@pytest.mark.parametrize(
    ("generation", "inputs"), [(2, 31), (2, 30), (2, 29), (1, 99), (3, 1), (2, MAX_INPUTS)]
)
def test_what_changed_outranks_what_is_there_whatever_it_was_computed_from(generation: int, inputs: int):
    first = unused_rows(BOOK, minute(four=3 * DOLLAR))
    held = Held(rank(first), {("four", "USD"): DOLLAR})
    now = minute(four=1 * DOLLAR)._replace(generation=generation, inputs=inputs)
    found = news(BOOK, now, held)
    assert found is not None
    assert found.unallocated_nano.tolist() == [3 * DOLLAR]
    assert rank(found) > held.revision
    assert encode(found) == encode(news(BOOK, now, held))
    assert found.inputs <= MAX_COUNTED_INPUTS  # so that there is room above it


def test_rows_that_have_no_reason_any_more_are_withdrawn_by_an_empty_set():
    held = Held(rank(unused_rows(BOOK, minute(-1))), {("four", "USD"): DOLLAR})
    found = news(BOOK, minute(-1), held)
    assert found is not None
    assert len(found.device) == 0
    assert rank(found) > held.revision


def test_charges_of_no_node_are_commitments_alone_and_no_node_has_its_name():
    found = unused_rows(BOOK, minute())
    found.texts[found.texts.index("commitment")] = "free"
    with pytest.raises(BadRecord, match="commitment alone"):
        check(found, NO_NODE.key)
    with pytest.raises(BadRecord, match="bad_name"):
        NodeKey.from_key(b"c/-")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("quantity: 4", "quantity: 0", "greater than or equal to 1"),
        ("    effective_from: 2025-07-01\n", "", "required"),
        ("00:02:00Z", "00:02:30Z", "whole minute"),
    ],
)
def test_a_commitment_that_makes_no_sense_is_refused(old: str, new: str, what: str):
    with pytest.raises(InvalidDocument, match=what):
        read_prices(TEXT.replace(old, new, 1), "p.yaml")
