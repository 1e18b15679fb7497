"""The embedded server as ClickHouse's own clients see it: clickhouse-connect, curl, plain HTTP."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from gpuledger.warehouse import Warehouse
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.warehouse"]


@pytest.fixture
def http(embedded: EmbeddedWarehouse) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{embedded.port}", timeout=PATIENCE_S) as client:
        yield client


def client(server: EmbeddedWarehouse, **options: Any) -> Client:
    return clickhouse_connect.get_client(host="127.0.0.1", port=server.port, interface="http", **options)


@pytest.fixture
def table(embedded: EmbeddedWarehouse, warehouse: Warehouse) -> Iterator[Client]:
    """A client in a database with the table t."""
    connected = client(embedded, database=warehouse.url.database)
    connected.command(
        "CREATE TABLE t (a UInt64, b Nullable(String), c Decimal(38, 9)) ENGINE = MergeTree ORDER BY a"
    )
    yield connected
    connected.close()


def test_clickhouse_connect_writes_and_reads_rows_with_every_digit(table: Client) -> None:
    rows: list[list[Any]] = [
        [1, "x", Decimal("0.000000001")],
        [2, None, Decimal("12345678901234567890.123456789")],
    ]
    summary = table.insert("t", rows, column_names=["a", "b", "c"])
    assert summary.written_rows == 2
    assert [list(row) for row in table.query("SELECT a, b, c FROM t ORDER BY a").result_rows] == rows


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip", True])
def test_clickhouse_connect_may_compress_both_ways(
    embedded: EmbeddedWarehouse, warehouse: Warehouse, compress: bool | str
) -> None:
    connected = client(embedded, database=warehouse.url.database, compress=compress)
    connected.command("CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    connected.insert("t", [[n, "text" * 20] for n in range(10_007)], column_names=["a", "b"])
    answer = connected.query("SELECT a, b FROM t ORDER BY a")
    assert len(answer.result_rows) == 10_007
    assert answer.result_rows[-1] == (10_006, "text" * 20)
    connected.close()


def test_clickhouse_connect_reads_arrow_and_data_frames(table: Client) -> None:
    table.insert("t", [[7, "x", Decimal(1)]], column_names=["a", "b", "c"])
    assert table.query_arrow("SELECT a FROM t")["a"].to_pylist() == [7]
    assert list(table.query_df("SELECT a FROM t")["a"]) == [7]


def test_clickhouse_connect_streams_a_result_in_blocks(table: Client) -> None:
    with table.query_row_block_stream("SELECT number FROM numbers(200003)") as stream:
        assert sum(len(block) for block in stream) == 200_003


def test_an_empty_result_still_has_its_columns(table: Client) -> None:
    assert table.query("SELECT a, b FROM t LIMIT 0").column_names == ("a", "b")
    assert table.query("SELECT a FROM t WHERE a = 99").result_rows == []


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("UInt64", 7, 7),
        ("String", "it's \\ 100 %\n\t", "it's \\ 100 %\n\t"),
        ("Array(String)", ["a'b", "c"], ["a'b", "c"]),
        ("Nullable(String)", None, None),
        ("Decimal(38, 9)", Decimal("1.000000001"), Decimal("1.000000001")),
    ],
)
def test_parameters_are_substituted_by_type(table: Client, declared: str, value: Any, expected: Any) -> None:
    assert table.query(f"SELECT {{x:{declared}}} AS x", parameters={"x": value}).result_rows == [(expected,)]


def test_long_parameters_travel_in_a_form(embedded: EmbeddedWarehouse) -> None:
    connected = client(embedded, form_encode_query_params=True)
    assert connected.query("SELECT length({x:String})", parameters={"x": "y" * 50_003}).first_row == (50_003,)
    connected.close()


def test_an_insert_repeated_with_its_token_is_made_once(table: Client) -> None:
    table.command(
        "CREATE TABLE d (a UInt64) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 9"
    )
    for value, token in ((1, "x"), (2, "x"), (3, "y")):
        table.insert("d", [[value]], column_names=["a"], settings={"insert_deduplication_token": token})
    assert table.query("SELECT a FROM d ORDER BY a").result_rows == [(1,), (3,)]


def test_a_session_keeps_its_temporary_table_and_another_does_not_see_it(embedded: EmbeddedWarehouse) -> None:
    mine, other = (client(embedded, session_id=f"{name}-{time.time_ns()}") for name in ("mine", "other"))
    mine.command("CREATE TEMPORARY TABLE kept (a UInt8)")
    mine.command("INSERT INTO kept VALUES (5)")
    assert mine.query("SELECT a FROM kept").result_rows == [(5,)]
    with pytest.raises(DatabaseError) as missing:
        other.query("SELECT a FROM kept")
    assert missing.value.code == 60


def test_a_setting_of_one_request_does_not_stay_in_its_session(http: httpx.Client) -> None:
    session = {"session_id": f"s-{time.time_ns()}"}
    query = "SELECT getSetting('max_block_size')"
    before = http.post("/", params=session, content=query).text
    assert http.post("/", params=session | {"max_block_size": "17"}, content=query).text == "17\n"
    assert http.post("/", params=session, content=query).text == before != "17\n"


@contextmanager
def busy_session(server: EmbeddedWarehouse, database: str) -> Iterator[None]:
    """A session with an insert into t under way, whose rows have not all come, until the block ends."""
    session = {"session_id": f"s-{time.time_ns()}"}
    query = urlencode({"query": "INSERT INTO t (a) FORMAT CSV", "database": database, **session})
    head = f"POST /?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    url = f"http://127.0.0.1:{server.port}/"

    def is_locked() -> bool:
        answer = httpx.post(url, params=session, content="SELECT 1", timeout=PATIENCE_S)
        return answer.headers.get("X-ClickHouse-Exception-Code") == "373"

    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"1\n2\n")
        until(is_locked)
        yield


def test_a_session_runs_one_query_at_a_time(
    embedded: EmbeddedWarehouse, table: Client, warehouse: Warehouse
) -> None:
    with busy_session(embedded, warehouse.url.database):
        pass  # it was told so


def test_queries_of_several_clients_run_side_by_side(
    embedded: EmbeddedWarehouse, http: httpx.Client, table: Client, warehouse: Warehouse
) -> None:
    with ExitStack() as slow:
        for _ in range(3):
            slow.enter_context(busy_session(embedded, warehouse.url.database))
        assert http.post("/", content="SELECT 1").text == "1\n"


def test_curl_asks_in_the_url_and_in_the_body(embedded: EmbeddedWarehouse) -> None:
    url = f"http://127.0.0.1:{embedded.port}/"

    def curl(*arguments: str) -> str:
        return subprocess.run(["curl", "-sS", *arguments], check=True, capture_output=True, text=True).stdout

    assert curl(f"{url}?query=SELECT+1") == "1\n"
    assert curl(url, "--data-binary", "SELECT 'a', 2") == "a\t2\n"
    assert curl(f"{url}?query=SELECT+1+AS+x&default_format=JSONEachRow") == '{"x":1}\n'
    assert curl(f"{url}?query=SELECT+%7Bx:UInt8%7D+%2B+1&param_x=4") == "5\n"
    assert curl(f"{url}ping") == "Ok.\n"


def test_rows_may_follow_the_statement_in_the_body_or_stand_alone_in_it(
    http: httpx.Client, table: Client, warehouse: Warehouse
) -> None:
    where = {"database": warehouse.url.database}
    http.post("/", params=where, content="INSERT INTO t (a, b) FORMAT CSV\n1,one\n").raise_for_status()
    http.post(
        "/", params=where | {"query": "INSERT INTO t (a, b) FORMAT JSONEachRow"}, content='{"a":2,"b":"two"}'
    ).raise_for_status()
    http.post("/", params=where, content="INSERT INTO t (a, b) VALUES (3, 'th;ree')").raise_for_status()
    packed = gzip.compress(b"4,four\n")
    http.post(
        "/",
        params=where | {"query": "INSERT INTO t (a, b) FORMAT CSV"},
        content=packed,
        headers={"Content-Encoding": "gzip"},
    ).raise_for_status()
    rows = table.query("SELECT a, b FROM t ORDER BY a").result_rows
    assert rows == [(1, "one"), (2, "two"), (3, "th;ree"), (4, "four")]


def test_headers_tell_what_a_query_did(http: httpx.Client) -> None:
    answer = http.post("/", params={"query_id": "mine"}, content="SELECT number FROM numbers(7) FORMAT CSV")
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert answer.headers["X-ClickHouse-Format"] == "CSV"
    assert answer.headers["X-ClickHouse-Timezone"] == "UTC"
    assert answer.headers["X-ClickHouse-Server-Display-Name"] == "gpuledger"
    summary = json.loads(answer.headers["X-ClickHouse-Summary"])
    assert (summary["read_rows"], summary["result_rows"], summary["result_bytes"]) == ("7", "7", "14")


def test_a_broken_insert_writes_nothing(http: httpx.Client, table: Client, warehouse: Warehouse) -> None:
    answer = http.post(
        "/",
        params={"database": warehouse.url.database},
        content=b"INSERT INTO t FORMAT Native\n\x03\xffgarbage",
    )
    assert answer.status_code >= 400
    assert table.query("SELECT count() FROM t").first_row == (0,)


def test_a_second_server_on_the_same_data_is_refused(embedded: EmbeddedWarehouse) -> None:
    path = str(embedded.data_dir / "data")
    second = subprocess.run(
        [sys.executable, "-m", "gpuledger.warehouse", "serve", "--path", path, "--port", "0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert second.returncode != 0
    assert "another process serves this data path" in second.stderr


def test_other_addresses_than_loopback_need_a_password(tmp_path: Path) -> None:
    open_to_all = subprocess.run(
        [sys.executable, "-m", "gpuledger.warehouse", "serve", "--path", str(tmp_path), "--host", "0.0.0.0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert open_to_all.returncode != 0
    assert "set a password" in open_to_all.stderr


def test_a_configured_password_is_asked_for(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    options = ("--user", "ann", "--password-file", str(secret))
    with EmbeddedWarehouse(tmp_path / "warehouse", *options) as server:
        url = f"http://127.0.0.1:{server.port}/"
        good = client(server, username="ann", password="open sesame")
        assert good.command("SELECT 1") == 1
        for name, word in (("ann", "wrong"), ("default", ""), ("bob", "open sesame")):
            with pytest.raises(DatabaseError) as refused:
                client(server, username=name, password=word)
            assert refused.value.code == 516
        by_header = {"X-ClickHouse-User": "ann", "X-ClickHouse-Key": "open sesame"}
        assert httpx.post(url, content="SELECT 2", headers=by_header, timeout=PATIENCE_S).text == "2\n"
        in_url = {"user": "ann", "password": "open sesame"}
        assert httpx.post(url, params=in_url, content="SELECT 3", timeout=PATIENCE_S).text == "3\n"
        refusal = httpx.post(url, content="SELECT 1", timeout=PATIENCE_S)
        assert (refusal.status_code, refusal.headers["X-ClickHouse-Exception-Code"]) == (403, "516")


def test_what_was_acknowledged_survives_kill_9(new_embedded: EmbeddedWarehouse) -> None:
    new_embedded.start()
    first = client(new_embedded)
    first.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
    for value in range(23):
        first.insert("t", [[value]], column_names=["a"])
    new_embedded.kill9()
    new_embedded.start()
    assert client(new_embedded).query("SELECT count(), sum(a) FROM t").first_row == (23, 253)
