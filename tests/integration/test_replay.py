"""A replay of a simulated fleet with crashes is what processor workers charged live, to the byte."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuledger.archive.archiver import Archiver
from gpuledger.archive.store import Directory
from gpuledger.attribution.charges import MONEY_COLUMNS
from gpuledger.bus import Outgoing, SchemaRegistry, framed
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import ChargeSet, PriceBookVersion, PriceEntry, TeamMapVersion, TeamRule
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.localstack import Registry
from gpuledger.replay import asked, partition, publishing
from gpuledger.replay.announcing import claim, keep_plan
from gpuledger.replay.checking import Comparison, compare
from gpuledger.replay.publishing import publish
from gpuledger.replay.recorded import read_recorded
from gpuledger.replay.request import Request
from gpuledger.replay.running import replay
from gpuledger.replay.state import State
from gpuledger.replay.what_if import explain, recorded_amounts, write_table
from gpuledger.sink.batcher import Batch
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.charged_fleet import (
    Charged,
    Dying,
    called,
    charged_fleet,
    generations_by_hour,
    load,
    price_of_all,
)
from tests.support.fleet import Sender, ledger, read_all
from tests.support.sent_fleet import PARTITIONS

pytest_plugins = ["tests.support.warehouse"]

DEAR_NANO = 31_415_926_535


@pytest.fixture(scope="module")
def charged(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Charged]:
    with charged_fleet(tmp_path_factory.mktemp("charged"), registry) as found:
        yield found


def compared(request: Request, directory: Path, processes: int = 1) -> Comparison:
    replay(request, directory, processes, then=read_recorded)
    return compare(request, PARTITIONS, directory)


def test_a_replay_from_kafka_is_what_was_charged_live(charged: Charged, tmp_path: Path) -> None:
    done = called(charged, tmp_path, "--check", "--json", "--processes", "2")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    found = said["ledgers"]["gpu.charges"]
    assert found["windows"] == []
    assert found["compared"] == len({key for key in ledger(charged.bus).sets if key[1] < charged.spec.end_ns})
    assert found["compared"] > 36 * 2
    assert said["events"] > 0
    assert list(tmp_path.rglob("*.sqlite")) == []


def test_the_rows_of_the_warehouse_are_compared_too(
    charged: Charged, tmp_path: Path, warehouse: Warehouse
) -> None:
    load(warehouse, charged)
    url = f"http://{warehouse.url.host}:{warehouse.url.port}/{warehouse.url.database}"
    done = called(charged, tmp_path, "--check", "--against", "both", "--json", "--url", url)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)["ledgers"]
    assert set(found) == {"gpu.charges", "the warehouse"}
    sets = {key: one for key, one in ledger(charged.bus).sets.items() if key[1] < charged.spec.end_ns}
    assert found["the warehouse"]["compared"] == sum(len(one.device) > 0 for one in sets.values())
    # one row a nano-unit dearer, one window's head of another price version, one window that is not there
    (dearer, _), (other, _), (gone, _) = sorted(sets.items(), key=lambda item: -len(item[1].device))[:3]
    one = sets[dearer]
    sets[dearer] = replace(one, used_nano=one.used_nano + (np.arange(len(one.device)) == 0), generation=1)
    sets[other] = replace(sets[other], price_version=7, generation=1)
    sets[gone] = replace(emptied(sets[gone]), generation=1)
    again = [Arrival(sets[key], topics.CHARGES, 0, 0, 0) for key in (dearer, other, gone)]
    Writer(warehouse, SystemClock()).write(Batch(again))
    done = called(charged, tmp_path, "--check", "--against", "warehouse", "--json", "--url", url)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["ledgers"]["the warehouse"]
    assert found["different"] == 3
    assert {(one["node"], one["window_start_ns"]): one["what"] for one in found["windows"]} == {
        (dearer[0].node, dearer[1]): ["used"],
        (other[0].node, other[1]): ["price_version"],
        (gone[0].node, gone[1]): ["not in the ledger"],
    }


def emptied(one: ChargeSet) -> ChargeSet:
    """The set that withdraws a window."""
    return ChargeSet(
        one.cluster, one.node, one.window_start_ns, one.window_length_ns, 0, one.inputs, one.digest,
        one.core_version,
    )  # fmt: skip


def test_a_replay_from_the_archive_is_what_was_charged_live(charged: Charged, tmp_path: Path) -> None:
    store = Directory(tmp_path / "archive")
    archiver = Archiver(charged.bus, store, SystemClock())
    archiver.run(lambda: False, once=True)
    archiver.close()
    found = compared(replace(charged.request, archive=store.url), tmp_path / "state")
    assert found.shown == []
    assert found.windows > 36 * 2


def test_any_part_of_the_time_and_one_cluster_are_replayed_alike(charged: Charged, tmp_path: Path) -> None:
    for number in (1, 4):
        start = charged.spec.start_ns + number * MINUTE_NS
        request = replace(charged.request, from_ns=start, to_ns=start + MINUTE_NS)
        found = compared(request, tmp_path / str(number))
        assert found.shown == []
        assert found.windows >= 6
    nobody = compared(replace(charged.request, clusters=frozenset({"elsewhere"})), tmp_path / "nobody")
    assert nobody.windows == 0
    done = called(charged, tmp_path, "--check", "--cluster", "elsewhere")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "nothing of a cluster 'elsewhere'" in " ".join(done.stderr.split())
    assert list(tmp_path.glob("gpuledger/**/*.sqlite")) == []


@pytest.mark.parametrize(
    ("option", "mode"),
    [("--against=both", "--check"), ("--table=charges_what_if_x", "--what-if"), ("--why=x", "--publish"),
     ("--yes", "--publish")],
)  # fmt: skip
def test_an_option_without_what_it_is_for_is_refused(option: str, mode: str) -> None:
    command = [sys.executable, "-m", "gpuledger", "replay", "--from=2026-11-01T00:00:00Z"]
    done = subprocess.run(
        [*command, "--to=2026-11-01T00:01:00Z", option], capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option.partition('=')[0]} goes with {mode}" in done.stderr


def test_one_process_says_how_far_it_is_within_a_partition_too(
    charged: Charged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "TAKE_RECORDS", 10)
    said: list[int] = []
    done = replay(charged.request, tmp_path, 1, lambda progress: said.append(progress.read))
    assert said == sorted(said)
    assert len(set(said)) > 3 * PARTITIONS
    assert said[-1] == done.read == done.total


def test_a_replay_that_is_killed_goes_on_from_its_state(
    charged: Charged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "TAKE_RECORDS", 10)
    saved = State.save
    deaths = 0
    left = 1  # rounds until it dies; more each time, so that it comes to an end

    def dying(self: State, *values: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        saved(self, *values)

    monkeypatch.setattr(State, "save", dying)
    while True:
        try:
            replay(charged.request, tmp_path, 1, then=read_recorded)
            break
        except KeyboardInterrupt:
            deaths += 1
            left = 1 + deaths
    assert deaths >= 3
    found = compare(charged.request, PARTITIONS, tmp_path)
    assert found.shown == []
    assert found.windows == len({key for key in ledger(charged.bus).sets if key[1] < charged.spec.end_ns})
    with pytest.raises(Refused, match="give another --state"):
        replay(replace(charged.request, to_ns=charged.spec.end_ns - MINUTE_NS), tmp_path, 1)


def test_what_if_says_by_cause_what_can_be_worked_out_by_hand(
    charged: Charged, tmp_path: Path, warehouse: Warehouse
) -> None:
    late, left_out = max(ledger(charged.bus).sets.items(), key=lambda item: len(item[1].device))
    load(warehouse, charged, without=[late])
    request = replace(
        charged.request,
        prices=PriceBookVersion(1, 0, entries=[PriceEntry("dear", "gpu", DEAR_NANO, "USD")]),
        teams=TeamMapVersion(1, 0, rules=[TeamRule("all", "everybody", consumer_kind="pod")]),
        policy={"idle": "pool"},
    )
    replay(request, tmp_path, 1)
    lines = explain(request, PARTITIONS, tmp_path, recorded_amounts(warehouse, request))
    assert list(lines[0].causes) == ["late data", "price", "team rule", "policy"]
    total = {cause: sum(line.causes[cause] for line in lines) for cause in lines[0].causes}
    missing = sum(int(getattr(left_out, name).sum()) for name in MONEY_COLUMNS)
    before, after = price_of_all(charged.spec, 12_290_000_000), price_of_all(charged.spec, DEAR_NANO)
    assert missing > 0
    assert total == {"late data": missing, "price": after - before, "team rule": 0, "policy": 0}
    assert sum(line.recorded.nano for line in lines) == before - missing
    assert sum(line.what_if.nano for line in lines) == after
    everybody = next(line for line in lines if line.team == "everybody")
    assert everybody.recorded.nano == 0
    assert everybody.causes["team rule"] > 0
    assert everybody.causes["policy"] < 0  # what it held and did not use is the pool's now
    rows = write_table(warehouse, "charges_what_if_dear", PARTITIONS, tmp_path, request, time.time_ns())
    ((count, sums),) = warehouse.rows(
        "SELECT count(), sum(used + held_idle + unallocated + unobserved) FROM charges_what_if_dear FINAL"
    )
    assert (count, int(sums * 10**9)) == (rows, after)
    url = f"http://{warehouse.url.host}:{warehouse.url.port}/{warehouse.url.database}"
    done = called(charged, tmp_path, "--what-if", "--policy", "idle=pool", "--url", url)
    assert done.returncode == 0, done.stderr
    assert f"{rows} rows in charges_what_if" in done.stdout
    pool = next(line for line in done.stdout.splitlines() if line.startswith("(pool)")).split()
    assert [pool[0], pool[2][0], pool[3][0], pool[-1]] == ["(pool)", "+", "+", "USD"]
    with pytest.raises(ConfigError, match="is named charges_what_if"):
        write_table(warehouse, "charge_rows", PARTITIONS, tmp_path, request, 0)


def test_a_publication_that_is_killed_midway_never_shows_a_mixture(
    charged: Charged, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "SETS_AT_A_TIME", 60)
    load(warehouse, charged)
    clock = SystemClock()
    dear = PriceBookVersion(
        2, time.time_ns() + 3600 * 10**9, document_sha256="dear",
        entries=[PriceEntry("dear", "gpu", DEAR_NANO, "USD")],
    )  # fmt: skip
    with pytest.raises(Refused, match="config apply"):
        asked.generations_of(replace(charged.request, prices=dear), tmp_path, "me", "dearer", clock)
    sender = Sender(charged.bus)
    with SchemaRegistry(charged.bus) as schemas:
        sender.send(Outgoing(topics.PRICES, b"prices", framed(schemas, dear), (), 0))
    sender.close()
    planned = asked.generations_of(replace(charged.request, prices=dear), tmp_path, "me", "dearer", clock)
    assert [(one.number, one.price_version, one.cause) for one in planned] == [(1, 2, "price")]
    keep_plan(tmp_path, planned)
    request = replace(charged.request, generations=planned)
    replay(request, tmp_path, 1)
    deaths = 0
    dying = Dying(warehouse.client, warehouse.url)
    while True:
        dying.inserts_left = deaths
        try:
            publish(request, PARTITIONS, tmp_path, dying, clock)
            break
        except KeyboardInterrupt:
            deaths += 1
            assert all(len(found) == 1 for found in generations_by_hour(warehouse, charged.spec.end_ns))
            again = asked.generations_of(replace(charged.request, prices=dear), tmp_path, "me", "", clock)
            assert again == planned
    assert deaths >= 4
    assert all(found == [1] for found in generations_by_hour(warehouse, charged.spec.end_ns))
    ((total,),) = warehouse.rows(
        "SELECT sum(total) FROM charges WHERE window_start < fromUnixTimestamp({end:UInt32})",
        {"end": charged.spec.end_ns // 10**9},
    )
    assert int(total * 10**9) == price_of_all(charged.spec, DEAR_NANO)
    assert len(read_all(charged.bus, topics.GENERATIONS)) == 1
    # what was published is recorded now: a replay of it is the same again
    found = compared(charged.request, tmp_path / "again")
    assert found.shown == []
    published = [one for (_, start), one in ledger(charged.bus).sets.items() if start < charged.spec.end_ns]
    assert {one.generation for one in published} == {1}
    url = f"http://{warehouse.url.host}:{warehouse.url.port}/{warehouse.url.database}"
    done = called(charged, tmp_path, "--publish", "--yes", "--json", "--why", "again", "--url", url)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["generations"] == [2]
    assert all(found == [2] for found in generations_by_hour(warehouse, charged.spec.end_ns))
    stranger = replace(request, generations=(replace(planned[0], who="another"),))
    with pytest.raises(Refused, match="was announced by me meanwhile"):
        claim(stranger, clock)
