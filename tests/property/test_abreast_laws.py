"""Devices charged abreast with others, against the same devices charged one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.attribution import Frames, NodeWindow, Policy, charge_windows
from gpuledger.attribution.abreast.integers import remainders_given, scaled
from gpuledger.attribution.formula import largest_remainder
from gpuledger.attribution.trace import Steps
from gpuledger.contract.avro import Parts
from gpuledger.contract.columns import longs
from gpuledger.contract.fields import Field
from gpuledger.contract.records import (
    EventBatch,
    Holder,
    Holdings,
    NodeLayout,
    PriceBookVersion,
    PriceEntry,
    Process,
    SampleBatch,
    TeamMapVersion,
    TeamRule,
    decode_series,
    encode,
)
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Prices, Teams
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.records import window_records
from tests.support.charging import S, gpu, pod_process, row_of, samples, state
from tests.support.charging import window as window_of
from tests.support.fleets import BOOKS, node_windows

POLICIES = st.sampled_from([Policy(), Policy(mig="dominant")])
SPEC = FleetSpec(gpus=64, hours=0.05, seed=5)
MIDDLE_NS = SPEC.start_ns + (SPEC.end_ns - SPEC.start_ns) // 2 // SPEC.window_ns * SPEC.window_ns
PRICES = Prices(
    [
        PriceBookVersion(
            1,
            0,
            entries=[
                PriceEntry("gpu", "gpu", 12_290_000_001, "USD", effective_to_ns=MIDDLE_NS + 7),
                PriceEntry("node", "node", 98_320_000_003, "USD", effective_from_ns=MIDDLE_NS + 7),
            ],
        )
    ]
)
TEAMS = Teams(
    [
        TeamMapVersion(
            1,
            0,
            rules=[
                TeamRule("label", label_key="team", effective_to_ns=MIDDLE_NS),
                TeamRule("later", "later", effective_from_ns=MIDDLE_NS),
            ],
        )
    ]
)


def contents(charged) -> list[tuple[bytes, int, int]]:
    return [(encode(one.record), one.conservation_error_nano, one.conservation_error_ns) for one in charged]


def one_by_one(windows, prices, teams) -> list[tuple[bytes, int, int]]:
    """Who is told each step is told of each device."""
    return contents(charge_windows(windows, prices, teams, Steps()))


def steady(window: NodeWindow) -> NodeWindow:
    """The window as if nothing had changed in it."""
    return replace(window, state="complete", refused=0, holdings=window.holdings[:1])


@settings(max_examples=150, deadline=None)
@given(st.lists(node_windows(POLICIES).map(steady), min_size=1, max_size=3), BOOKS)
def test_random_devices_charged_abreast_are_charged_to_the_byte_as_one_by_one(windows, prices):
    assert contents(charge_windows(windows, prices, Teams())) == one_by_one(windows, prices, Teams())


def told_otherwise(window: NodeWindow, odd: int) -> NodeWindow:
    """The window with records after the first that say something else of some of its processes."""

    def versions(processes: Sequence[Process]) -> list[Process]:
        return [
            replace(one, witnessed=not one.witnessed, pending=number % 2 == 1) if odd >> number & 1 else one
            for number, one in enumerate(processes)
        ]

    return replace(
        window,
        events=[replace(batch, processes=versions(batch.processes)) for batch in window.events],
        samples=[replace(batch, processes=versions(batch.processes)) for batch in window.samples],
    )


@settings(max_examples=100, deadline=None)
@given(node_windows(POLICIES).map(steady), st.integers(1, 31), BOOKS)
def test_records_that_disagree_of_a_process_are_read_alike_abreast_and_one_by_one(window, odd, prices):
    window = told_otherwise(window, odd)
    once = contents(charge_windows([window], prices, Teams()))
    assert once == one_by_one([window], prices, Teams())
    assert once == contents(charge_windows([window], prices, Teams(), frames=Frames()))


def test_of_a_process_that_is_witnessed_by_the_last_record_alone_the_same_is_read_abreast_and_one_by_one():
    """NVML measured 0.7 of the device, no call was seen. The keyframe says that its calls are not seen, the
    samples that they are: the last holds, the measured work is refused, and what was active has no
    explanation."""
    seen = pod_process(1, "uid-0")
    unseen = replace(seen, witnessed=False)
    layout = NodeLayout(devices=[gpu(0)])
    window = steady(
        window_of(
            [state(layout, [Holder("uid-0", 0)], [unseen])],
            [],
            [
                samples([(Field.PROCESS_SM_UTILIZATION, i, 1, 0.7) for i in range(10)], 3, [seen], 0),
                samples([(Field.ENGINE_ACTIVE, i, 1, 0.7) for i in range(10)], 4),
            ],
        )
    )
    [charged] = charge_windows([window], PRICES, Teams())
    assert row_of(charged, reason="unexplained")["unobserved_ns"] == 7 * S
    assert contents([charged]) == one_by_one([window], PRICES, Teams())


def fleet() -> Iterator[NodeWindow]:
    """Windows of a simulated fleet, decoded as from a log: what comes again is the same object."""
    plans = [plan_node(SPEC, number) for number in range(SPEC.nodes)]
    series: dict[tuple[str, type], Parts] = {}
    for start in range(SPEC.start_ns, SPEC.end_ns, SPEC.window_ns):
        for plan in plans:
            if start >= plan.ended_ns or start + SPEC.window_ns <= plan.launched_ns:
                continue
            found: dict[type, list] = {Holdings: [], EventBatch: [], SampleBatch: []}
            for record in window_records(SPEC, plan, start):
                parts = series.setdefault((plan.key.node, type(record)), Parts())
                found[type(record)] += decode_series(type(record), [encode(record)], [parts])
            yield NodeWindow(
                *plan.key,
                start,
                SPEC.window_ns,
                Revision(0, 3, 7, CORE_VERSION),
                holdings=found[Holdings],
                events=found[EventBatch],
                samples=found[SampleBatch],
                layout=plan.layout,
                life_start_ns=plan.launched_ns if plan.launched_ns > start else None,
                life_end_ns=plan.ended_ns if plan.ended_ns < start + SPEC.window_ns else None,
            )


def in_passes(windows: Sequence[NodeWindow], size: int, frames: Frames | None) -> list:
    return [
        one
        for first in range(0, len(windows), size)
        for one in contents(
            charge_windows(windows[first : first + size], PRICES, TEAMS, frames=frames)
            if frames is not None
            else charge_windows(windows[first : first + size], PRICES, TEAMS, Steps())
        )
    ]


def test_a_fleet_through_frames_that_are_kept_is_charged_to_the_byte_as_one_by_one():
    """Prices by GPU give way to prices by node within a window, and another team rule holds from then on."""
    windows = list(fleet())
    expected = in_passes(windows, 64, None)
    assert in_passes(windows, 64, Frames()) == expected
    assert in_passes(windows, 7, Frames()) == expected


AMOUNTS = st.integers(0, (1 << 48) - 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(AMOUNTS, st.lists(st.integers(0, 60 * 10**9 << 20), min_size=1, max_size=5)), max_size=6
    )
)
def test_columns_divide_by_largest_remainder_as_whole_numbers_do(groups):
    groups = [(amount, [*weights, 1]) for amount, weights in groups]
    expected = [largest_remainder(amount, weights, sum(weights)) for amount, weights in groups]
    columns = np.array(
        [
            (number, amount, weight, sum(weights))
            for number, (amount, weights) in enumerate(groups)
            for weight in weights
        ],
        np.int64,
    ).reshape(-1, 4)
    found = remainders_given(*columns.T.copy())
    assert found.tolist() == [part for parts in expected for part in parts]


@settings(max_examples=150, deadline=None)
@given(AMOUNTS, st.integers(0, 1 << 60), st.integers(1, 1 << 60))
def test_a_product_beyond_63_bits_is_divided_exactly(amount, weight, total):
    weight = min(weight, total)
    found = scaled(*(longs([value]) for value in (amount, weight, total)))
    assert tuple(int(column[0]) for column in found) == divmod(amount * weight, total)
