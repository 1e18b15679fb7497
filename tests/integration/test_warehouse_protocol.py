"""The embedded server as ClickHouse's own clients see it: clickhouse-connect, curl, plain HTTP."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import clickhouse_connect
import httpx
import lz4.frame
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from gpuledger.warehouse import Warehouse
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse

pytest_plugins = ["tests.support.warehouse"]


@pytest.fixture
def http(embedded: EmbeddedWarehouse) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{embedded.port}") as client:
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


def test_a_session_runs_one_query_at_a_time(embedded: EmbeddedWarehouse, http: httpx.Client) -> None:
    session = {"session_id": f"s-{time.time_ns()}"}
    first = threading.Thread(
        target=lambda: httpx.post(f"{http.base_url}/", params=session, content="SELECT sleep(2)")
    )
    first.start()
    time.sleep(0.7)
    second = http.post("/", params=session, content="SELECT 1")
    first.join()
    assert second.headers["X-ClickHouse-Exception-Code"] == "373"


def test_queries_of_several_clients_run_side_by_side(http: httpx.Client) -> None:
    def wait() -> None:
        httpx.post(f"{http.base_url}/", content="SELECT sleep(3)", timeout=30)

    slow = [threading.Thread(target=wait) for _ in range(3)]
    for thread in slow:
        thread.start()
    assert http.post("/", content="SELECT 1").text == "1\n"
    assert all(thread.is_alive() for thread in slow), "nobody waited for the slow ones"
    for thread in slow:
        thread.join()


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


@pytest.mark.parametrize(
    ("query", "code", "status", "name"),
    [
        ("SELECT * FROM nowhere", 60, 404, "UNKNOWN_TABLE"),
        ("SELEC 1", 62, 400, "SYNTAX_ERROR"),
        ("SELECT x", 47, 404, "UNKNOWN_IDENTIFIER"),
        ("SELECT throwIf(1)", 395, 500, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        ("SELECT 1 FORMAT Nonsense", 73, 404, "UNKNOWN_FORMAT"),
        ("SELECT 1 SETTINGS max_nonsense = 1", 115, 404, "UNKNOWN_SETTING"),
        ("INSERT INTO nowhere FORMAT Native\n\x01", 60, 404, "UNKNOWN_TABLE"),
        ("SELECT 1; SELECT 2", 62, 400, "SYNTAX_ERROR"),
    ],
)
def test_errors_have_the_code_status_and_words_of_clickhouse(
    http: httpx.Client, query: str, code: int, status: int, name: str
) -> None:
    answer = http.post("/", content=query)
    assert answer.headers["X-ClickHouse-Exception-Code"] == str(code)
    assert answer.status_code == status
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")
    assert f"({name})" in answer.text


def test_an_unknown_setting_in_the_url_is_refused(http: httpx.Client) -> None:
    answer = http.post("/", params={"max_nonsense": "1"}, content="SELECT 1")
    assert answer.headers["X-ClickHouse-Exception-Code"] == "115"


def test_get_only_reads(http: httpx.Client) -> None:
    answer = http.get("/", params={"query": "CREATE TABLE x (a UInt8) ENGINE = Memory"})
    assert answer.headers["X-ClickHouse-Exception-Code"] == "164"


def test_a_broken_insert_writes_nothing(http: httpx.Client, table: Client, warehouse: Warehouse) -> None:
    answer = http.post(
        "/",
        params={"database": warehouse.url.database},
        content=b"INSERT INTO t FORMAT Native\n\x03\xffgarbage",
    )
    assert answer.status_code >= 400
    assert table.query("SELECT count() FROM t").first_row == (0,)


def test_a_body_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(http: httpx.Client) -> None:
    bomb = lz4.frame.compress(bytes(600 << 20))
    answer = http.post(
        "/",
        params={"query": "INSERT INTO t FORMAT CSV"},
        content=bomb,
        headers={"Content-Encoding": "lz4"},
        timeout=60,
    )
    assert answer.headers["X-ClickHouse-Exception-Code"] == "229"


@pytest.mark.parametrize("encoding", ["br", "snappy"])
def test_an_encoding_that_is_not_known_is_said_so(http: httpx.Client, encoding: str) -> None:
    answer = http.post("/", content=b"x", headers={"Content-Encoding": encoding})
    assert answer.status_code == 415


def test_a_cut_off_compressed_body_is_refused(http: httpx.Client) -> None:
    packed = gzip.compress(b"SELECT 1" * 100)[:-9]
    answer = http.post("/", content=packed, headers={"Content-Encoding": "gzip"})
    assert answer.headers["X-ClickHouse-Exception-Code"] == "271"


def test_a_web_page_of_another_origin_gets_nothing(http: httpx.Client) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert http.post("/", content="SELECT 1", headers=headers).status_code == 403


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
        assert httpx.post(url, content="SELECT 2", headers=by_header).text == "2\n"
        in_url = {"user": "ann", "password": "open sesame"}
        assert httpx.post(url, params=in_url, content="SELECT 3").text == "3\n"
        refusal = httpx.post(url, content="SELECT 1")
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


def raw(server: EmbeddedWarehouse, head: bytes, body: bytes = b"SELECT 1") -> bytes:
    """The status line and body of the answer to a request with bytes that no client library sends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        if b"Host: " not in head:
            head = b"Host: localhost\r\n" + head
        size = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        connection.sendall(b"POST / HTTP/1.1\r\n" + head + size + body)
        return b"".join(iter(lambda: connection.recv(65536), b""))


FORM = b"Content-Type: multipart/form-data; boundary=x\r\n"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Authorization: Basic \xff\xfe\r\n", b"SELECT 1", 403),
        (b"X-ClickHouse-User: \xff\xfe\r\n", b"SELECT 1", 403),
        (b"Host: [::1\r\n", b"SELECT 1", 403),
        (b"Origin: http://[\r\n", b"SELECT 1", 403),
        (b"X-ClickHouse-Format: CSV\xff\r\n", b"SELECT 1", 404),
        (b"X-ClickHouse-Database: \xff\r\n", b"SELECT 1", 404),
        (b"Content-Encoding: \xff\r\n", b"SELECT 1", 415),
        (b"", b"\x99\x9c SELECT", 400),
        (FORM, b"junk", 400),
        (b"Content-Type: multipart/form-data\r\n", b"junk", 400),
        (FORM, b"--x\r\nContent-Disposition: form-data\r\n\r\nSELECT 1\r\n--x--\r\n", 400),
        (FORM, b"--x\r\nContent-Disposition: form-data; name=query\r\n\r\n\xff\r\n--x--\r\n", 400),
    ],
)
def test_bytes_that_make_no_sense_get_an_error_of_clickhouse(
    embedded: EmbeddedWarehouse, head: bytes, body: bytes, status: int
) -> None:
    answer = raw(embedded, head, body)
    assert answer.split(b" ")[1] == b"%d" % status, answer
    assert b"Code: " in answer
    assert b"Traceback" not in answer


def test_a_session_timeout_in_other_digits_is_a_bad_argument(embedded: EmbeddedWarehouse) -> None:
    answer = httpx.post(
        f"http://127.0.0.1:{embedded.port}/",
        params={"session_id": "s", "session_timeout": "\u00b2"},
        content="SELECT 1",
    )
    assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (400, "36")
