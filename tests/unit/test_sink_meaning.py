"""Which sets would lose or misplace money, and are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.meaning import check
from tests.support.charge_sets import WINDOW_NS, charge_set

KEY = b"c1/n1"


def test_a_good_set_passes_also_when_it_is_empty() -> None:
    check(charge_set(WINDOW_NS), KEY)
    check(charge_set(WINDOW_NS, 0), KEY)


@pytest.mark.parametrize(
    ("broken", "key", "reason"),
    [
        (charge_set(WINDOW_NS), b"c1/n2", "wrong_key"),
        (charge_set(WINDOW_NS, pods=["a", "a"]), KEY, "duplicate_row"),
        (replace(charge_set(WINDOW_NS), window_start_ns=WINDOW_NS + 1), KEY, "bad_window"),
        (
            replace(charge_set(WINDOW_NS), window_start_ns=1 << 62, window_length_ns=1 << 60),
            KEY,
            "bad_window",
        ),
        (replace(charge_set(WINDOW_NS), inputs=1 << 20), KEY, "bad_revision"),
    ],
)
def test_a_set_that_would_lose_money_is_refused(broken: ChargeSet, key: bytes, reason: str) -> None:
    with pytest.raises(BadRecord) as refused:
        check(broken, key)
    assert refused.value.reason == reason


def test_rows_are_told_apart_by_their_texts_and_not_by_their_numbers() -> None:
    twice = charge_set(WINDOW_NS, pods=["a", "b"])
    twice.texts[10] = "a"
    assert np.unique(twice.consumer).size == 2
    with pytest.raises(BadRecord, match="different keys"):
        check(twice, KEY)
