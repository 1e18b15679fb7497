"""A price that changes the past: `config apply` announces a generation, workers restate it, SQL shows it.

Real Kafka, registry, worker, sink and ClickHouse. The GPU of each node costs a whole number a second, so that
money can be read off: a window of 10 s at 3,600 an hour costs 10.
"""

from __future__ import annotations

import time
from decimal import Decimal

from gpuledger.bus import Outgoing, Producer, SchemaRegistry, framed
from gpuledger.configuration import Documents
from gpuledger.configuration.announcing import Announcer
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.periods import following, period_of
from gpuledger.contract.records import PeriodsVersion
from gpuledger.contract.topics import PERIODS
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.yaml_documents import read_prices
from tests.support.fleet import WINDOW_NS, ledger
from tests.support.restated_stack import A_WINDOW, NODES, PATIENCE_S, WINDOWS, Stack
from tests.support.waiting import until

pytest_plugins = ["tests.support.warehouse", "tests.support.restated_ledger"]


def test_a_price_of_the_past_restates_its_windows_and_no_others(stack: Stack) -> None:
    before = stack.windows()
    assert {(generation, money) for generation, _, money in before.values()} == {(0, A_WINDOW)}
    path = stack.prices(1, (2, 1, 3))
    said = stack.apply(path)
    (generation,) = said["generations"]
    first, last = (stack.start + minute * MINUTE_NS for minute in (1, 3))
    assert (generation["from_ns"], generation["to_ns"], generation["cause"]) == (first, last, "price")
    inside = range(MINUTE_NS // WINDOW_NS, 3 * MINUTE_NS // WINDOW_NS)
    until(lambda: stack.restated(inside) == {1}, PATIENCE_S)
    after = stack.windows()
    for place, (number, revision, money) in after.items():
        if place[1] in inside:
            assert (number, money) == (1, 2 * A_WINDOW)
        else:
            assert (number, revision, money) == before[place]
    # conservation, against price and lifetime: 5 minutes at 1 a second, two of them at 2
    total = stack.warehouse.rows(
        "SELECT sum(used) + sum(held_idle) + sum(unallocated) + sum(unobserved), sum(total) FROM charges"
    )
    assert total[0] == (len(NODES) * 420, len(NODES) * 420)
    assert all(len(contents) == 1 for contents in ledger(stack.bus).contents.values())

    # once more: nothing is published, nothing announced
    again = stack.apply(path)
    assert again["applied"][0]["unchanged"]
    assert again["generations"] == []
    assert len(Announcer(stack.bus, SystemClock()).announced()) == 1

    # a late record of a restated window is charged with its generation's price
    late = inside[0]
    stack.sender.telemetry([stack.nodes[0].calls(stack.start + late * WINDOW_NS)])
    until(lambda: stack.windows()["n1", late][1] > after["n1", late][1], PATIENCE_S)
    assert stack.windows()["n1", late][::2] == (1, 2 * A_WINDOW)


def test_whoever_is_killed_between_the_version_and_its_generation_loses_nothing(stack: Stack) -> None:
    """The version is in Kafka, and nothing more: the next call announces what it owes, and only that."""
    path = stack.prices(1, (5, 2, 4))
    documents = Documents(stack.bus, SystemClock())
    documents.apply(read_prices(path.read_text(), str(path)), author="killed", restates_past=True)
    count = len(Announcer(stack.bus, SystemClock()).announced())
    said = stack.apply(path)
    assert said["applied"][0]["unchanged"]
    assert said["generations"]
    assert len(Announcer(stack.bus, SystemClock()).announced()) == count + len(said["generations"])
    wanted = [(1, 1, 5, 5, 1)[number * WINDOW_NS // MINUTE_NS] * A_WINDOW for number in range(WINDOWS)]
    until(lambda: stack.money() == wanted, PATIENCE_S)
    assert stack.apply(path)["generations"] == []


def test_a_version_may_leave_the_past_alone(stack: Stack) -> None:
    before = stack.windows()
    said = stack.apply(stack.prices(9), "--no-restate")
    assert said["generations"] == []
    assert stack.apply(stack.prices(9))["generations"] == []
    assert stack.windows() == before


def test_a_spot_price_that_arrives_late_restates_what_was_provisional(stack: Stack) -> None:
    """Known to minute 1 at 2 a second; when the feed has caught up it is 3 from minute 2 on. Minute 1 costs
    the same and is provisional no more; from minute 2 on it is another price."""
    series = (
        "kind: prices\nspot:\n  - {id: s, per: gpu, match: {cluster: c}, known_until: %s,\n"
        "     prices: [{from: %s, price_per_hour: 7200}%s]}\n"
    )
    path = stack.directory / "spot.yaml"
    path.write_text(series % (stack.instant(1), stack.instant(0), ""))
    stack.apply(path)
    until(lambda: stack.money() == [2 * A_WINDOW] * WINDOWS, PATIENCE_S)
    path.write_text(
        series
        % (stack.instant(5), stack.instant(0), f", {{from: {stack.instant(2)}, price_per_hour: 10800}}")
    )
    (generation, *_) = stack.apply(path)["generations"]
    assert generation["cause"] == "late_price"
    assert (generation["from_ns"], generation["clusters"]) == (stack.start + MINUTE_NS, ["c"])
    until(lambda: stack.money() == [2 * A_WINDOW] * 12 + [3 * A_WINDOW] * 18, PATIENCE_S)
    provisional = "SELECT countIf(endsWith(price_ids, ':provisional')) FROM charges WHERE node = 'n1'"
    # minute 1 is restated too, with its hour, which may be another than that of the minutes behind
    until(lambda: stack.warehouse.rows(provisional)[0][0] == 0, PATIENCE_S)


def test_what_was_booked_in_a_closed_month_stays_whatever_restates_it(stack: Stack) -> None:
    """A late record, a dearer price, another team, and a published replay: all of it is booked in the month
    behind, and the months sum to what the ledger says now."""
    own = period_of(stack.start + WINDOWS * WINDOW_NS)
    stack.apply(stack.prices(1))
    until(lambda: {money for _, _, money in stack.windows().values()} == {A_WINDOW}, PATIENCE_S)
    before = stack.booked()
    assert before == {(own, "vision"): len(NODES) * WINDOWS * A_WINDOW}
    with SchemaRegistry(stack.bus) as registry, Producer(stack.bus, "test") as producer:
        closed = PeriodsVersion(1, time.time_ns(), own, author="finance")
        producer.produce_all([Outgoing(PERIODS, b"periods", framed(registry, closed), partition=0)])
    stack.another_sink()  # it knows from its first record on; others within a minute

    windows = stack.windows()
    stack.sender.telemetry([stack.nodes[1].calls(stack.start)])
    until(lambda: stack.windows()["n2", 0][1] > windows["n2", 0][1], PATIENCE_S)
    assert booked_in(stack, own) == before

    stack.apply(stack.prices(4))
    until(lambda: {money for _, _, money in stack.windows().values()} == {4 * A_WINDOW}, PATIENCE_S)
    assert booked_in(stack, own) == before
    correction = stack.booked()[following(own), "vision"]
    assert correction == 3 * len(NODES) * WINDOWS * A_WINDOW

    teams = stack.directory / "teams.yaml"
    teams.write_text("kind: teams\nrules: [{id: all, team: robots, match: {namespace: research}}]\n")
    stack.apply(teams)
    until(lambda: stack.teams() == {"robots"}, PATIENCE_S)
    whole = len(NODES) * WINDOWS * A_WINDOW
    assert stack.booked() == before | {
        (following(own), "vision"): -whole,
        (following(own), "robots"): 4 * whole,
    }

    published = ["--publish", "--yes", "--policy", "idle=pool"]
    replayed = stack.replay(*published, "--url", str(stack.warehouse.url))
    assert replayed["generations"]
    assert len(stack.teams()) == 2  # the pool's has what robots held idle
    assert booked_in(stack, own) == before
    assert sum(stack.booked().values()) == 4 * whole


def booked_in(stack: Stack, period: str) -> dict[tuple[str, str], Decimal]:
    return {key: money for key, money in stack.booked().items() if key[0] == period}
