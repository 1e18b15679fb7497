"""A row as `gpuledger explain --json` gives it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.explain.reason import values_of
from gpuledger.explain.stored import as_rows
from gpuledger.pricing import Teams
from tests.support import charging as by_hand


def rows(*pods: str, **sharing: Any) -> dict[str, dict[str, Any]]:
    """The values of the rows of a device whose SM active is 0.4, by consumer; the pool's is empty."""
    layout = NodeLayout(devices=[by_hand.gpu(**sharing)])
    state = by_hand.state(layout, [Holder(pod, 0) for pod in pods])
    fields = (Field.ENGINE_ACTIVE, Field.SM_ACTIVE)
    measured = by_hand.samples([(field, 0.0, 10.0, 0.4) for field in fields], sequence=1)
    charges = charge_window(by_hand.window([state], sampled=[measured]), by_hand.prices(), Teams())
    return {row["consumer"]: values_of(row) for row in as_rows(charges.record)}


def test_sm_active_of_a_shared_device_is_nobodys_own() -> None:
    found = rows("a", "b", sharing="time_slicing", replicas=4)
    for consumer in ("a", "b", ""):
        assert found[consumer]["sm_active"] is None
        assert found[consumer]["device_sm_active"] == pytest.approx(0.4)


def test_sm_active_is_the_own_of_who_was_alone_on_the_device() -> None:
    own = rows("a")["a"]
    assert own["sm_active"] == own["device_sm_active"] == pytest.approx(0.4)
