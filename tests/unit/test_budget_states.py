"""What a partition keeps, as records: none is larger than one may be, and together they are all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.budgets import (
    Catalog,
    Judge,
    Lives,
    PartitionCount,
    Replaced,
    Sums,
    Window,
    WindowCharges,
    states,
)
from gpuledger.budgets.lines import Payer
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.states import PART_BYTES, counters_of, newest, states_of
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES
from gpuledger.contract.records import Breach, BudgetState, BudgetSubtotal, BudgetsVersion, decode, encode
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.yaml_documents import read_documents

NANO = 10**9
START = 28_000_000 * MINUTE_NS
BUCKET_NS = 5 * MINUTE_NS
NODES, TEAMS, BUCKETS, RESTATED = 5, 60, 301, 60
SMALL_BYTES = 50_000  # of a record, in the place of PART_BYTES
RULE = "period: month, amount: 1000000, currency: USD, rules: [{kind: burn_rate}]"


def catalog() -> Catalog:
    rows = "".join(f"  - {{id: b{n}, scope: {{team: t{n}}}, {RULE}}}\n" for n in range(TEAMS))
    (found,) = read_documents(f"kind: budgets\nbudgets:\n{rows}", "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    found.version, found.active_from_ns = 1, 0
    return Catalog([found])


def charged(node: int, bucket: int, offset: int, revision: int = 1) -> WindowCharges:
    """A window of a node, on which each team that is its own has a pod."""
    lines = tuple(
        (
            Payer(f"t{team}", "", "ns", f"w{team}", "H100", f"pod-{team}-{revision}", "USD"),
            (BUCKET_NS, 0, 0, 0, revision * NANO + bucket, 0, 0, 0),
        )
        for team in range(node, TEAMS, NODES)
    )
    window = Window("c", f"node-{node}", START + bucket * BUCKET_NS)
    return WindowCharges(window, BUCKET_NS, revision, 1, tuple(sorted(lines)), offset, 1_000 * offset)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "PART_BYTES", SMALL_BYTES)


@pytest.fixture(scope="module")
def full() -> PartitionCount:
    """Every bucket that is kept has an amount, every node's windows are known, and many are restated."""
    count = PartitionCount(0, catalog())
    for bucket in range(BUCKETS):
        bunch = [charged(node, bucket, count.position + node) for node in range(NODES)]
        assert not count.to_ask(bunch)
        count.count(bunch, {})
    for bucket in range(RESTATED):
        bunch = [charged(node, bucket, count.position + node, revision=2) for node in range(NODES)]
        asked = count.to_ask(bunch)
        known = {one.window: Replaced(1, 1, charged(n, bucket, 0).lines) for n, one in enumerate(bunch)}
        count.count(bunch, {window: known[window] for window in asked})
    return count


def test_no_record_of_a_state_is_large_however_much_is_kept(full: PartitionCount) -> None:
    parts = states_of(full, 0)
    sizes = [len(encode(state)) for state in parts]
    assert sum(sizes) > 5 * SMALL_BYTES
    assert max(sizes) < 1.5 * SMALL_BYTES
    assert 1.5 * PART_BYTES < MAX_RECORD_BYTES / 2
    assert [(state.part, state.parts) for state in parts] == [(n, len(parts)) for n in range(len(parts))]


def test_all_parts_together_are_what_was_counted(full: PartitionCount) -> None:
    parts = [decode(BudgetState, encode(state)) for state in states_of(full, 7)]
    counters, position = counters_of(newest(parts)[0])
    ours = full.counters
    assert position == full.position
    assert counters.totals == ours.totals
    assert counters.high_water_ns == ours.high_water_ns
    assert counters.restated == ours.restated
    assert list(counters.restated) == list(ours.restated)  # the oldest make room first
    assert {node: [one.tolist() for one in known.columns()] for node, known in counters.known.items()} == {
        node: [one.tolist() for one in known.columns()] for node, known in ours.known.items()
    }
    assert rings(counters.rings) == rings(ours.rings)
    assert sum(len(ring) for of_meter in ours.rings.values() for ring in of_meter.values()) == TEAMS * BUCKETS


def rings(found: dict[str, dict[int, Ring]]) -> dict[tuple[str, int], list[list[int]]]:
    return {
        (key, length_ns): [one.tolist() for one in ring.columns()]
        for key, of_meter in found.items()
        for length_ns, ring in of_meter.items()
    }


def test_a_state_without_one_of_its_parts_is_none(full: PartitionCount) -> None:
    parts = states_of(full, 0)
    assert newest(parts[:-1]) == {}
    assert len(newest([*parts, parts[0]])[0]) == len(parts)


def test_the_second_stage_sums_whole_rings_as_it_sums_single_buckets(full: PartitionCount) -> None:
    def judged(catalog: Catalog, sums: Sums) -> list[Breach]:
        judge = Judge(sums, Lives())
        return judge.changes(catalog)

    whole, single = Sums(), Sums()
    for state in states_of(full, 0):
        whole.absorb(state.subtotal)
        for _ in range(2):
            whole.absorb(state.subtotal)  # once more, as after a restart
        for low in range(0, state.subtotal.bucket_meter.size, 100):
            single.absorb(part_of(state, low))
    for key, of_meter in full.counters.rings.items():
        for length_ns, ring in of_meter.items():
            starts, amounts = ring.columns()
            for sums in (whole, single):
                found = sums.buckets(key, length_ns, int(starts[0]), BUCKETS)
                assert found.tolist() == amounts.tolist()
    assert judged(full.catalog, whole) == judged(full.catalog, single)


def part_of(state: BudgetState, low: int) -> BudgetSubtotal:
    """The totals, and a few of the buckets."""
    told = state.subtotal
    some = slice(low, low + 100)
    return replace(
        told,
        bucket_meter=told.bucket_meter[some],
        bucket_length_ns=told.bucket_length_ns[some],
        bucket_start_ns=told.bucket_start_ns[some],
        bucket_amount=told.bucket_amount[some],
    )
