"""Requests that the embedded server refuses, with the codes and words of ClickHouse's own."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator

import httpx
import lz4.frame
import pytest

from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.waiting import PATIENCE_S

pytest_plugins = ["tests.support.warehouse"]


@pytest.fixture
def http(embedded: EmbeddedWarehouse) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{embedded.port}", timeout=PATIENCE_S) as client:
        yield client


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


def test_a_body_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(http: httpx.Client) -> None:
    bomb = lz4.frame.compress(bytes(600 << 20))
    answer = http.post(
        "/",
        params={"query": "INSERT INTO t FORMAT CSV"},
        content=bomb,
        headers={"Content-Encoding": "lz4"},
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


def raw(server: EmbeddedWarehouse, head: bytes, body: bytes = b"SELECT 1") -> bytes:
    """The status line and body of the answer to a request with bytes that no client library sends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
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
        timeout=PATIENCE_S,
    )
    assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (400, "36")
