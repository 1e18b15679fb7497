"""`gpuledger period` against a real broker, a real registry and the embedded ClickHouse."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from click.testing import Result
from typer.testing import CliRunner

from gpuledger.bus import BusSettings
from gpuledger.configuration.periods import Periods
from gpuledger.configuration.periods_cli import app as periods_app
from gpuledger.contract.clock import ManualClock, SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.periods import end_ns, following, period_of
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S
from gpuledger.sink.batcher import Batch
from gpuledger.sink.periods import ClosedPeriods
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import arrival, charge_set

pytest_plugins = ["tests.support.warehouse", "tests.support.empty_ledger"]


def closing(ledger: BusSettings, url: str, *arguments: str, said: str = "") -> Result:
    """`gpuledger period`."""
    places = {
        "GPULEDGER_KAFKA_BOOTSTRAP": ledger.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": ledger.registry_url,
        "GPULEDGER_WAREHOUSE_URL": url,
    }
    return CliRunner(env=places).invoke(periods_app, list(arguments), input=said)


def test_a_month_is_closed_after_what_is_booked_in_it_was_shown_and_listed_since(
    ledger: BusSettings, warehouse: Warehouse
) -> None:
    """An hour of last month cost 4 for each of three pods; it is closed once, and next month is not over."""
    now = time.time_ns()
    later = following(period_of(now))  # this month may end while we look
    last = period_of(end_ns_before(now) - 1)
    start = end_ns_before(now) - HOUR_NS
    url = str(warehouse.url)
    Writer(warehouse, SystemClock()).write(Batch([arrival(charge_set(start, nano=10**9))]))
    assert "No month is closed." in closing(ledger, url, "list").stdout
    for refused, why in (
        (later, "is not over before"),
        ("2026-13", "is no month"),
        (last, "nobody is there"),
    ):
        assert why in str(closing(ledger, url, "close", refused).exception)
    assert isinstance(closing(ledger, url, "close", last, "--json").exception, Refused)
    assert not Periods(ledger, SystemClock()).versions()

    done = closing(ledger, url, "close", last, "--yes", "--author", "finance", "--comment", "invoiced")
    assert done.exception is None, done.exception
    assert f"Booked in {last}: 12.000000000 USD." in done.stdout
    assert f"{last} is closed for all that is charged from" in done.stdout
    (listed,) = json.loads(closing(ledger, url, "list", "--json").stdout)["periods"]
    assert listed.pop("active_from_ns") >= now + 60 * NS_PER_S
    booked = [{"currency": "USD", "total": "12.000000000", "corrections": "0.000000000"}]
    assert listed == {
        "version": 1,
        "period": last,
        "author": "finance",
        "comment": "invoiced",
        "booked": booked,
    }
    assert "is closed already" in str(closing(ledger, url, "close", last, "--yes").exception)
    table = closing(ledger, url, "list").stdout
    assert all(text in table for text in (last, "finance", "invoiced", "12.000000000 USD"))


def test_a_sink_that_runs_knows_a_month_that_is_closed_before_it_is(ledger: BusSettings) -> None:
    clock = ManualClock(end_ns("2026-11") + 4 * DAY_NS)
    assert not Periods(ledger, SystemClock()).versions()  # the topic, just made, has a leader now
    sink = ClosedPeriods(ledger, clock)
    assert sink.through(clock.unix_ns()) == ""
    closed = Periods(ledger, clock).close("2026-11")
    assert sink.through(closed.active_from_ns - 1) == ""
    assert sink.through(closed.active_from_ns) == "2026-11"
    assert sink.through(clock.unix_ns()) == ""  # what came before it was closed is the month's
    sink.close()


def end_ns_before(at_ns: int) -> int:
    """Where the month of an instant begins."""
    first = datetime.fromtimestamp(at_ns // NS_PER_S, UTC).replace(day=1, hour=0, minute=0, second=0)
    return int(first.timestamp()) * NS_PER_S
