"""`gpuledger config apply` against a real broker and a real registry."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    framed,
)
from gpuledger.configuration import Documents
from gpuledger.configuration.cli import app
from gpuledger.configuration.prices_cli import app as prices_app
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import ChargeSet, PriceBookVersion, decode_as
from gpuledger.contract.topics import CHARGES, PRICES
from gpuledger.contract.windows import NS_PER_S
from gpuledger.contract.wire import unframe
from gpuledger.pricing.yaml_documents import InvalidDocument, read_prices
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.warehouse import Warehouse

pytest_plugins = ["tests.support.warehouse", "tests.support.empty_ledger"]

NOW = 1_700_000_000 * NS_PER_S
TEXT = "kind: prices\nprices:\n  - {id: a, per: gpu, price_per_hour: %s}\n"


class FixedClock(SystemClock):
    """The wall clock stands still, waiting is real."""

    def unix_ns(self) -> int:
        return NOW


def test_documents_are_published_as_whole_numbered_versions(ledger: BusSettings) -> None:
    documents = Documents(ledger, FixedClock())
    first = documents.apply(read_prices(TEXT % "1", "p.yaml"), author="a", comment="first")
    again = documents.apply(read_prices(TEXT % "1", "p.yaml"))
    assert (first.version.version, first.version.active_from_ns, first.unchanged) == (1, 0, False)
    assert again.unchanged
    second = documents.apply(read_prices(TEXT % "2", "p.yaml"), NOW + 3600 * NS_PER_S)
    assert second.version.version == 2
    tried = documents.apply(read_prices(TEXT % "3", "p.yaml"), dry_run=True)
    assert tried.version.version == 3
    held = documents.versions(PriceBookVersion)
    assert [(version.version, version.author) for version in held] == [(1, "a"), (2, "")]
    with pytest.raises(Refused, match="60 s ahead"):
        documents.apply(read_prices(TEXT % "4", "p.yaml"), NOW)


def test_once_something_was_charged_no_version_holds_from_the_beginning(ledger: BusSettings) -> None:
    with SchemaRegistry(ledger) as registry, Producer(ledger, "test") as producer:
        value = framed(registry, ChargeSet("c", "n", 0, NS_PER_S, 0, 1, 1, 1))
        producer.produce_all([Outgoing(CHARGES, b"c/n", value)])
    documents = Documents(ledger, FixedClock())
    with pytest.raises(Refused, match="60 s ahead"):
        documents.apply(read_prices(TEXT % "1", "p.yaml"), 0)
    applied = documents.apply(read_prices(TEXT % "1", "p.yaml"))
    assert applied.version.active_from_ns >= NOW + 60 * NS_PER_S


def test_who_publishes_second_at_the_same_moment_is_told(ledger: BusSettings) -> None:
    """Somebody else's version 1 arrives between the reading and the sending."""
    documents = Documents(ledger, FixedClock())
    reading = documents._read

    def and_another(reader, registry, kind):
        found = reading(reader, registry, kind)
        documents._read = reading
        with Producer(ledger, "other") as producer:
            other = read_prices(TEXT % "9", "p.yaml")
            other.author = "other"
            producer.produce_all([Outgoing(PRICES, b"prices", framed(registry, other), partition=0)])
        return found

    documents._read = and_another
    with pytest.raises(Refused, match="published by other at the same moment"):
        documents.apply(read_prices(TEXT % "1", "p.yaml"))
    assert documents.versions(PriceBookVersion)[0].author == "other"


def test_the_command_refuses_whole_what_has_a_mistake(
    ledger: BusSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", ledger.kafka_bootstrap)
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", ledger.registry_url)
    good, bad = tmp_path / "prices.yaml", tmp_path / "teams.yaml"
    good.write_text(TEXT % "1")
    bad.write_text("kind: teams\nrules:\n  - {id: a}\n")
    refused = CliRunner().invoke(app, ["apply", str(good), str(bad)])
    assert isinstance(refused.exception, InvalidDocument)
    assert not Documents(ledger, FixedClock()).versions(PriceBookVersion)
    done = CliRunner().invoke(app, ["apply", str(good), "--json", "--yes", "--author", "a"])
    (applied,) = json.loads(done.stdout)["applied"]
    assert applied.pop("diff") == [{"sign": "+", "id": "a", "what": "per gpu, unit_price 1, currency USD"}]
    assert applied.pop("effect")["ranges"] == []
    assert applied == {"kind": "prices", "version": 1, "active_from_ns": 0, "unchanged": False}


def applying(ledger: BusSettings, *arguments: str, said: str = "") -> Result:
    """`gpuledger config apply`, with what a person types where somebody sits there."""
    places = {
        "GPULEDGER_KAFKA_BOOTSTRAP": ledger.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": ledger.registry_url,
        "GPULEDGER_WAREHOUSE_URL": "",
    }
    return CliRunner(env=places).invoke(app, ["apply", *arguments], input=said)


def test_a_dry_run_publishes_nothing_and_its_exit_code_says_whether_something_would_change(
    ledger: BusSettings, tmp_path: Path
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(TEXT % "1")
    tried = applying(ledger, str(path), "--dry-run")
    assert tried.exit_code == 4
    assert "version 1 would hold from the beginning" in tried.stdout
    assert not Documents(ledger, FixedClock()).versions(PriceBookVersion)
    assert applying(ledger, str(path), "--yes").exit_code == 0
    assert applying(ledger, str(path), "--dry-run").exit_code == 0


def test_a_change_is_shown_with_the_past_that_it_is_for_before_anything_is_published(
    ledger: BusSettings, tmp_path: Path
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(TEXT % "1")
    applying(ledger, str(path), "--yes")
    path.write_text(TEXT % "2")
    tried = applying(ledger, str(path), "--dry-run")
    assert "~ a: unit_price 1 -> 2, list_price 1 -> 2" in tried.stdout
    assert "The past from the beginning to" in tried.stdout
    assert "no warehouse was given (--url)" in tried.stdout
    assert "A generation is announced for it (cause price)" in tried.stdout
    left = applying(ledger, str(path), "--dry-run", "--no-restate")
    assert "It stays as it was charged (--no-restate)" in left.stdout


def test_what_was_announced_is_said_and_what_of_it_nobody_restates_by_himself(
    ledger: BusSettings, tmp_path: Path
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(TEXT % "1")
    applying(ledger, str(path), "--yes")
    yesterday = datetime.fromtimestamp(time.time_ns() // NS_PER_S - 86_400, UTC).strftime(
        "%Y-%m-%dT%H:00:00Z"
    )
    path.write_text(
        (TEXT % "1")
        + f"  - {{id: b, per: gpu, price_per_hour: 2, priority: 1, effective_from: {yesterday}}}\n"
    )
    said = applying(ledger, str(path), "--yes").stdout
    assert f"generation 1: {yesterday} to " in said
    assert "replay --publish" not in said
    path.write_text(TEXT % "3")
    said = applying(ledger, str(path), "--yes").stdout
    assert "generation 2: the beginning to " in said
    assert "`gpuledger replay --publish` restates what lies before" in said


def test_nothing_is_published_where_nobody_says_yes(ledger: BusSettings, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(TEXT % "1")
    refused = applying(ledger, str(path))
    assert isinstance(refused.exception, Refused)
    assert "--yes" in str(refused.exception)
    assert isinstance(applying(ledger, str(path), "--json").exception, Refused)
    assert not Documents(ledger, FixedClock()).versions(PriceBookVersion)


def test_a_yes_to_what_is_no_longer_so_publishes_nothing(ledger: BusSettings) -> None:
    documents = Documents(ledger, FixedClock())
    seen = documents.apply(read_prices(TEXT % "1", "p.yaml"), dry_run=True)
    documents.apply(read_prices(TEXT % "2", "p.yaml"), author="other")
    with pytest.raises(Refused, match="published by other meanwhile"):
        documents.apply(read_prices(TEXT % "1", "p.yaml"), seen=seen)


def test_what_was_committed_to_and_not_used_is_shown_and_published(
    ledger: BusSettings, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Two nodes at 60 an hour for three minutes in which nothing ran: 6 committed, 6 unused, three sets."""
    path = tmp_path / "prices.yaml"
    path.write_text(
        "kind: prices\ncommitments:\n  - {id: two, per: node, quantity: 2, price_per_hour: 60,\n"
        "     effective_from: 2025-07-01T00:02:00Z, effective_to: 2026-07-01}\n"
    )
    assert applying(ledger, str(path), "--yes").exit_code == 0
    url = str(warehouse.url)
    places = {
        "GPULEDGER_KAFKA_BOOTSTRAP": ledger.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": ledger.registry_url,
    }
    times = ["--from", "2025-07-01T00:00:00Z", "--to", "2025-07-01T00:05:00Z"]
    done = CliRunner(env=places).invoke(
        prices_app, ["commitments", "--url", url, *times, "--publish", "--json"]
    )
    assert done.exception is None, done.exception
    assert json.loads(done.stdout)["commitments"] == [
        {
            "commitment": "two",
            "currency": "USD",
            "committed": "6.000000000",
            "used": "0.000000000",
            "unused": "6.000000000",
            "over": "0.000000000",
        }
    ]
    with PartitionReader(ledger, "test") as reader, SchemaRegistry(ledger) as registry:
        found = [
            decode_as(ChargeSet, body, registry.schema(schema_id))
            for number in range(reader.partitions(CHARGES))
            for record in reader.read_to_end(CHARGES, number)
            for schema_id, body in [unframe(record.value or b"")]
        ]
    assert [one.window_start_ns for one in found] == [
        instant_ns(f"2025-07-01T00:0{minute}:00Z") for minute in (2, 3, 4)
    ]
    assert sum(int(one.unallocated_nano.sum()) for one in found) == 6 * 10**9
