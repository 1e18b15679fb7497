"""A device of slots: who holds k of K is entitled to k/K, exactly, whichever way it is computed."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.devices import Slot
from gpuledger.attribution.holding import Entitlement, Held, entitled, holding_of
from gpuledger.contract.records import Holder
from gpuledger.pricing import PricedDevice

HOLDERS = st.lists(
    st.builds(
        Holder,
        consumer=st.sampled_from(["a", "b", "c", "d"]),
        device=st.just(0),
        container=st.sampled_from(["main", "side"]),
        slots=st.integers(0, 9),
        mps_percentage=st.none() | st.sampled_from([12.5, 50.0, 100.0]),
    ),
    min_size=1,
    max_size=8,
)


def slot(sharing: str, replicas: int) -> Slot:
    return Slot("GPU-0", 0, PricedDevice(cluster="c"), sharing=sharing, replicas=replicas)


@given(HOLDERS, st.sampled_from(["time_slicing", "mps"]), st.integers(1, 12))
def test_the_parts_of_slots_are_their_fractions(holders: list[Holder], sharing: str, replicas: int) -> None:
    parts: dict[ConsumerKey, Fraction] = {}
    containers: dict[ConsumerKey, dict[str, int]] = {}
    percentages: dict[ConsumerKey, dict[str, float]] = {}
    for holder in holders:
        key = ConsumerKey("pod", holder.consumer)
        parts[key] = parts.get(key, Fraction(0)) + Fraction(holder.slots, replicas)
        given_to = containers.setdefault(key, {})
        given_to[holder.container] = given_to.get(holder.container, 0) + max(holder.slots, 1)
        if holder.mps_percentage is not None:
            percentages.setdefault(key, {})[holder.container] = holder.mps_percentage
    wanted = entitled(
        [
            Entitlement(
                key,
                0,
                tuple(sorted(containers[key].items())),
                tuple(sorted(percentages.get(key, {}).items())),
            )
            for key in sorted(parts)
        ],
        parts,
        exclusive=False,
    )
    assert holding_of(Held({0: holders}), slot(sharing, replicas)) == wanted


@given(st.integers(0, 3), st.integers(1, 3))
def test_one_holder_of_an_exclusive_device_has_all_of_it_or_his_slots(slots: int, replicas: int) -> None:
    holding = holding_of(
        Held({0: [Holder("a", 0, container="main", slots=slots)]}), slot("exclusive", replicas)
    )
    part = Fraction(holding.entitlements[0].weight, holding.denominator)
    assert part == min(Fraction(1), Fraction(slots, replicas))
