"""Rows of an INSERT whose statement stands in the URL: they go into the engine as they come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest

from gpuledger.warehouse import Warehouse
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.warehouse"]
SESSION_IS_LOCKED = "373"


@pytest.fixture
def http(warehouse: Warehouse) -> Iterator[httpx.Client]:
    """A client in a database with the table t."""
    warehouse.command("CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    base = f"http://127.0.0.1:{warehouse.url.port}"
    where = {"database": warehouse.url.database}
    with httpx.Client(base_url=base, params=where, timeout=PATIENCE_S) as client:
        yield client


def test_a_body_of_many_pieces_is_in_whole(http: httpx.Client, warehouse: Warehouse) -> None:
    body = b"".join(b"%d,%s\n" % (number, b"x" * 97) for number in range(50_023))
    http.post("/", params={"query": "INSERT INTO t FORMAT CSV"}, content=body).raise_for_status()
    assert warehouse.rows("SELECT count(), sum(a), sum(length(b)) FROM t") == [
        (50_023, 50_022 * 50_023 // 2, 97 * 50_023)
    ]


@pytest.mark.parametrize("query", ["INSERT INTO t FORMAT Values", "INSERT INTO t VALUES"])
def test_expressions_among_the_rows_are_read_before_the_engine_gets_them(
    http: httpx.Client, query: str
) -> None:
    answer = http.post("/", params={"query": query}, content="(1, file('/etc/hostname'))")
    assert answer.headers["X-ClickHouse-Exception-Code"] == "497"


def test_a_statement_may_end_in_the_body(http: httpx.Client, warehouse: Warehouse) -> None:
    answer = http.post("/", params={"query": "INSERT INTO t FORMAT"}, content="CSV\n1,one\n")
    answer.raise_for_status()
    assert warehouse.rows("SELECT a, b FROM t") == [(1, "one")]


def test_a_large_body_for_a_table_that_is_not_there_gets_the_engines_answer(http: httpx.Client) -> None:
    answer = http.post("/", params={"query": "INSERT INTO nothing FORMAT CSV"}, content=b"1\n" * 5_000_000)
    assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (404, "60")


def test_rows_that_break_in_the_middle_write_nothing(http: httpx.Client, warehouse: Warehouse) -> None:
    body = b"1,one\n" * 500_000 + b"no number\n" + b"2,two\n" * 500_000
    answer = http.post("/", params={"query": "INSERT INTO t FORMAT CSV"}, content=body)
    assert answer.status_code == 400
    assert warehouse.rows("SELECT count() FROM t") == [(0,)]


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_client_that_leaves_in_the_middle_has_written_nothing(
    http: httpx.Client, embedded: EmbeddedWarehouse, warehouse: Warehouse, framing: str
) -> None:
    session = f"leaves-{framing[0]}"
    where = {
        "query": "INSERT INTO t FORMAT CSV",
        "database": warehouse.url.database,
        "session_id": session,
    }
    rows = b"1,one\n2,two\n"
    head = f"POST /?{urlencode(where)} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", embedded.port)) as connection:
        connection.sendall(head + (b"c\r\n" + rows + b"\r\n" if "chunked" in framing else rows))
        wait_for_session(http, session, busy=True)  # the insert is under way
    wait_for_session(http, session, busy=False)
    assert warehouse.rows("SELECT count() FROM t") == [(0,)]


def wait_for_session(http: httpx.Client, session: str, *, busy: bool) -> None:
    def so() -> bool:
        answer = http.post("/", params={"session_id": session}, content="SELECT 1")
        return (answer.headers.get("X-ClickHouse-Exception-Code") == SESSION_IS_LOCKED) == busy

    until(so)
