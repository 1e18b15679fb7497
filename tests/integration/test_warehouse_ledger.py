"""What the views show, whatever came in, in whatever order, however often, and wherever a writer died."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuledger.contract.clock import NS_PER_S, ManualClock, SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.batcher import Batch
from gpuledger.sink.hours import FOREIGN_GRACE_S
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import NAMED, Grain, Warehouse, connect, migrate, missing, period
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from gpuledger.warehouse.migrations import Migration, load
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set, ledger_of, recent_window_ns

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns()


def write(warehouse: Warehouse, *sets: ChargeSet) -> Writer:
    writer = Writer(warehouse, SystemClock())
    writer.write(Batch([arrival(charges, offset) for offset, charges in enumerate(sets)]))
    return writer


def ledger(warehouse: Warehouse) -> dict[tuple[str, int], tuple[int, int, Decimal | None]]:
    rows = warehouse.rows(
        "SELECT node, toUnixTimestamp64Nano(toDateTime64(window_start, 9)), count(), sum(used_ns), sum(used) "
        "FROM charges GROUP BY node, window_start"
    )
    return {(node, start): (count, ns, money) for node, start, count, ns, money in rows}


EXACT = (
    "cluster, node, hour, consumer, team, state, windows, windows_ns, used_ns, held_idle_ns, "
    "unallocated_ns, unobserved_ns, total_ns, effectively_used_ns, used, held_idle, "
    "unallocated, unobserved, total, effectively_used, borrowed, launches, "
    "memory_peak_bytes, xid, lost_events, flags"
)
ROUNDED = "round(sm_active, 9), round(energy_joules, 6), round(completeness, 9), round(entitlement, 9)"


def hours(warehouse: Warehouse, view: str) -> Sequence[Sequence[object]]:
    return warehouse.rows(f"SELECT {EXACT}, {ROUNDED} FROM {view} ORDER BY ALL")


@pytest.mark.parametrize("names", [3, 300, 70_000])  # indexes of one, two and four bytes
def test_every_text_is_seen_as_it_was(warehouse: Warehouse, names: int) -> None:
    pods = [f"pod-{number}" for number in range(names)]
    write(warehouse, charge_set(START, pods=pods))
    seen = warehouse.rows("SELECT pod, consumer, consumer_kind, team = 'team-a' FROM charges")
    assert sorted(seen) == sorted((pod, pod, "pod", number % 2 == 0) for number, pod in enumerate(pods))


def test_only_the_greatest_revision_of_a_window_is_seen(warehouse: Warehouse) -> None:
    sets = [charge_set(START, inputs=inputs) for inputs in (3, 5, 4)]
    write(warehouse, *sets)
    assert ledger(warehouse) == ledger_of(sets[1:2])


def test_a_consumer_that_vanishes_leaves_no_ghost(warehouse: Warehouse) -> None:
    write(warehouse, charge_set(START, pods=["pool"], inputs=1))
    write(warehouse, charge_set(START, pods=["a", "b"], inputs=2))
    assert warehouse.rows("SELECT pod FROM charges ORDER BY pod") == [("a",), ("b",)]


def test_an_empty_set_withdraws_its_window(warehouse: Warehouse) -> None:
    write(warehouse, charge_set(START, inputs=1), charge_set(START + WINDOW_NS, inputs=1))
    write(warehouse, charge_set(START, 0, inputs=2))
    assert set(ledger(warehouse)) == {("n1", START + WINDOW_NS)}


def test_a_set_that_comes_twice_is_counted_once_even_when_the_token_is_forgotten(
    warehouse: Warehouse,
) -> None:
    charges = charge_set(START, 5)
    for offset in range(3):  # three offsets: three tokens
        Writer(warehouse, SystemClock()).write(Batch([arrival(charges, offset)]))
    assert warehouse.rows("SELECT count() FROM charge_rows") == [(15,)]
    assert ledger(warehouse) == ledger_of([charges])
    warehouse.command("OPTIMIZE TABLE charge_rows FINAL")
    assert ledger(warehouse) == ledger_of([charges])


def test_rows_without_their_head_are_not_seen(warehouse: Warehouse) -> None:
    old, new = charge_set(START, inputs=1), charge_set(START, 7, inputs=2)
    write(warehouse, old)
    writer = Writer(warehouse, SystemClock())
    batch = Batch([arrival(new, 1)])
    writer.write_rows(batch)
    writer.mark(batch.arrivals)
    assert ledger(warehouse) == ledger_of([old])
    writer.publish(batch)
    assert ledger(warehouse) == ledger_of([new])


def test_money_that_has_no_price_is_null_and_stays_null_in_sums(warehouse: Warehouse) -> None:
    write(warehouse, charge_set(START, 2, priced=False))
    assert warehouse.rows("SELECT sum(used), sum(total), any(total) FROM charges") == [(None, None, None)]
    assert warehouse.rows("SELECT any(used) FROM charges_hourly") == [(None,)]


def test_windows_of_many_days_may_come_in_one_batch(warehouse: Warehouse) -> None:
    sets = [charge_set(START - day * 24 * HOUR_NS, 1) for day in range(34)]
    write(warehouse, *sets)
    assert ledger(warehouse) == ledger_of(sets)


def test_a_window_from_long_ago_is_kept_as_long_as_a_fresh_one(warehouse: Warehouse) -> None:
    late = arrival(charge_set(START - 400 * 24 * HOUR_NS))
    late = type(late)(late.charges, late.topic, late.partition, late.offset, START // 1_000_000)
    Writer(warehouse, SystemClock()).write(Batch([late]))
    warehouse.command("OPTIMIZE TABLE charge_rows FINAL")
    warehouse.command("OPTIMIZE TABLE charge_windows FINAL")
    assert ledger(warehouse) == ledger_of([late.charges])


def test_stored_hours_equal_the_sums_of_their_windows(warehouse: Warehouse) -> None:
    sets = [charge_set(START + n * WINDOW_NS, n % 4, node=f"n{n % 2}") for n in range(37)]
    writer = write(warehouse, *sets)
    before = hours(warehouse, "charges_hourly")
    assert writer.store_hours() == 2
    assert warehouse.rows("SELECT count() FROM charge_dirty_hours") == [(0,)]
    assert hours(warehouse, "charges_hourly") == before == hours(warehouse, "charges_by_hour")
    assert len(before) > 0


def test_an_hour_that_is_withdrawn_whole_is_gone_from_the_hours(warehouse: Warehouse) -> None:
    writer = write(warehouse, charge_set(START, inputs=1))
    writer.store_hours()
    writer.write(Batch([arrival(charge_set(START, 0, inputs=2), 9)]))
    assert hours(warehouse, "charges_hourly") == []
    assert writer.store_hours() == 1
    assert hours(warehouse, "charges_hourly") == []


def test_stored_hours_outlive_their_windows(warehouse: Warehouse) -> None:
    writer = write(warehouse, *(charge_set(START + n * WINDOW_NS) for n in range(5)))
    writer.store_hours()
    before = hours(warehouse, "charges_hourly")
    for table in ("charge_rows", "charge_windows"):
        warehouse.command(f"TRUNCATE TABLE {table}")
    assert hours(warehouse, "charges_hourly") == before
    # One window of that hour comes again, and is not the whole hour.
    writer.write(Batch([arrival(charge_set(START), 9)]))
    writer.store_hours()
    assert hours(warehouse, "charges_hourly") == before


def test_the_hour_that_runs_is_summed_by_the_query_and_not_stored(warehouse: Warehouse) -> None:
    clock = ManualClock(unix_ns=START + 600 * NS_PER_S)
    writer = Writer(warehouse, clock)
    writer.write(Batch([arrival(charge_set(START))]))
    assert writer.store_hours() == 0
    assert hours(warehouse, "charges_hourly") == hours(warehouse, "charges_by_hour") != []
    clock.advance(HOUR_NS)
    assert writer.store_hours() == 1


def test_hours_that_a_dead_writer_left_are_stored_by_another_after_a_grace(warehouse: Warehouse) -> None:
    write(warehouse, charge_set(START))
    clock = ManualClock(unix_ns=SystemClock().unix_ns())
    heir = Writer(warehouse, clock)
    assert heir.store_hours() == 0
    clock.advance(FOREIGN_GRACE_S * NS_PER_S + NS_PER_S)
    assert heir.store_hours() == 1


def test_two_writers_with_the_same_sets_agree(warehouse: Warehouse) -> None:
    sets = [charge_set(START + n * WINDOW_NS, 3) for n in range(7)]
    first, zombie = write(warehouse, *sets), write(warehouse, *reversed(sets))
    first.store_hours()
    zombie.store_hours()
    assert ledger(warehouse) == ledger_of(sets)
    assert hours(warehouse, "charges_hourly") == hours(warehouse, "charges_by_hour")


STEPS = ("rows", "marks", "heads", "hours")
events = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.integers(0, 1),  # node
                st.sampled_from([0, 1, 359, 360]),  # window: two hours
                st.integers(0, 3),  # inputs: which revision
                st.integers(0, 3),  # rows
            ),
            min_size=1,
            max_size=4,
        ),
        st.sampled_from(STEPS),  # the last step that this writer made before it died
        st.booleans(),  # whether the batch was read again by the next owner
    ),
    min_size=1,
    max_size=5,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example costs a second: no shrinking
)
@given(events)
def test_hours_equal_the_windows_wherever_a_writer_dies(
    embedded: EmbeddedWarehouse, history: list[tuple[list[tuple[int, int, int, int]], str, bool]]
) -> None:
    url = embedded.url.rpartition("/")[0] + f"/test_{uuid.uuid4().hex[:12]}"
    warehouse = connect(url, create_database=True)
    try:
        migrate(warehouse)
        published: list[ChargeSet] = []
        for offset, (items, died_after, again) in enumerate(history):
            # Rows follow from the revision, so that equal revisions have equal bytes.
            sets = [
                charge_set(
                    START + window * WINDOW_NS, (inputs * 7 + window) % 4, node=f"n{node}", inputs=inputs + 1
                )
                for node, window, inputs, _ in items
            ]
            batch = Batch([arrival(charges, offset * 10 + n) for n, charges in enumerate(sets)])
            writer = Writer(warehouse, SystemClock())
            writer.write_rows(batch)
            if died_after != "rows":
                writer.mark(batch.arrivals)
            if died_after in ("heads", "hours"):
                writer.publish(batch)
                published += sets
            if died_after == "hours":
                writer.store_hours()
            if again:
                Writer(warehouse, SystemClock()).write(batch)
                published += sets
            assert ledger(warehouse) == ledger_of(published)
            assert hours(warehouse, "charges_hourly") == hours(warehouse, "charges_by_hour")
    finally:
        warehouse.command(f"DROP DATABASE `{warehouse.url.database}`")
        warehouse.close()


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_named_query_gives_the_same_by_window_and_by_hour(warehouse: Warehouse, name: str) -> None:
    write(warehouse, *(charge_set(START + n * WINDOW_NS, 4) for n in range(11)))
    span = period(START // NS_PER_S, START // NS_PER_S + 3600)
    by_window, by_hour = (
        warehouse.arrow(NAMED[name].sql(grain), span) for grain in (Grain.WINDOW, Grain.HOUR)
    )
    assert by_window.num_rows > 0
    for column in ("total", "used", "held_idle", "unobserved"):
        assert by_window[column].to_pylist() == by_hour[column].to_pylist()


def test_migrations_are_applied_once_and_only_once(database_url: str) -> None:
    warehouse = connect(database_url, create_database=True)
    assert [m.number for m in missing(warehouse)] == [m.number for m in load()]
    assert migrate(warehouse) == load()
    assert migrate(warehouse) == missing(warehouse) == []
    warehouse.command("DROP TABLE schema_migrations")  # a crash before the record: every statement may repeat
    assert migrate(warehouse) == load()
    warehouse.close()


def test_a_migration_that_changed_after_it_was_applied_is_refused(warehouse: Warehouse) -> None:
    first = load()[0]
    changed = Migration(first.number, first.name, first.statement + " -- x\n COMMENT 'other'")
    with pytest.raises(Refused, match="changed after it was applied"):
        migrate(warehouse, [changed, *load()[1:]])


def test_a_view_that_changed_is_applied_again(warehouse: Warehouse) -> None:
    changed = [Migration(m.number, m.name, m.statement.replace("max(latest)", "min(latest)")) for m in load()]
    assert [m.name for m in migrate(warehouse, changed)] == ["charge_dirty_hours"]
    assert migrate(warehouse, changed) == []


def test_a_warehouse_that_is_newer_than_the_program_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(Refused, match="upgrade"):
        migrate(warehouse, load()[:-1])


def test_a_gap_in_the_numbers_is_a_mistake_of_the_author(tmp_path: Path) -> None:
    (tmp_path / "0002_b.sql").write_text("SELECT 1")
    with pytest.raises(Exception, match="migration 0001 is missing"):
        load(tmp_path)
