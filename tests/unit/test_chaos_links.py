"""The connections of the chaos runs do what their faults say."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.chaos.links import Link
from tests.support.waiting import PATIENCE_S, until


class Echo(socketserver.BaseRequestHandler):
    """Answers what it is asked, and notes it."""

    asked: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.asked.append(data)
            self.request.sendall(data)


NOTED: list[str] = []


@pytest.fixture
def link() -> Iterator[Link]:
    Echo.asked.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        NOTED.clear()
        link = Link(lambda: server.server_address[1], NOTED.append)
        link.start()
        yield link
        link.close()
        server.shutdown()


def connect(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), PATIENCE_S)


def test_a_whole_link_passes_what_is_said(link: Link) -> None:
    with connect(link) as client:
        client.sendall(b"a")
        assert client.recv(9) == b"a"
        assert not NOTED


def test_a_muted_link_passes_requests_and_the_answers_come_late(link: Link) -> None:
    with connect(link) as client:
        client.sendall(b"a")
        assert client.recv(9) == b"a"
        link.mute()
        client.sendall(b"b")
        until(lambda: Echo.asked == [b"a", b"b"])
        until(lambda: NOTED == ["mute"])
        link.join()
        assert client.recv(9) == b"b"


def test_a_held_link_passes_nothing_until_it_is_joined(link: Link) -> None:
    with connect(link) as client:
        client.sendall(b"a")
        assert client.recv(9) == b"a"
        link.hold()
        client.sendall(b"b")
        until(lambda: NOTED == ["hold"])
        link.join()
        assert client.recv(9) == b"b"
        assert Echo.asked == [b"a", b"b"]


def test_a_cut_link_ends_its_connections_and_takes_new_ones_once_it_is_joined(link: Link) -> None:
    with connect(link) as client:
        client.sendall(b"a")
        assert client.recv(9) == b"a"
        link.cut()
        assert _is_ended(client)
        assert NOTED == ["cut"]
    link.join()
    with connect(link) as client:
        client.sendall(b"c")
        assert client.recv(9) == b"c"


def _is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(9) == b""
    except ConnectionResetError:
        return True


INSERT = b"POST /?query=INSERT+INTO+charge_rows+FORMAT+Native HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"


def test_an_insert_is_refused_with_the_code_of_clickhouse_and_never_reaches_it(link: Link) -> None:
    link.refuse(252, "Too many parts")
    with connect(link) as client:
        client.sendall(b"POST / HTTP/1.1\r\n\r\nSELECT 1")
        assert client.recv(99).endswith(b"SELECT 1")
        client.sendall(INSERT)
        answer = client.recv(999)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"X-ClickHouse-Exception-Code: 252\r\n" in answer
    assert b"Code: 252. DB::Exception: Too many parts" in answer
    assert NOTED == ["refuse 252"]
    link.accept()
    with connect(link) as client:
        client.sendall(INSERT)
        assert client.recv(999) == INSERT
    assert [b"INSERT" in asked for asked in Echo.asked] == [False, True]
