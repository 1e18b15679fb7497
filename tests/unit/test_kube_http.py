"""Requests to a server over kept connections: what is used again, what is made anew, and what has bounds."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from gpuledger.contract.errors import ConfigError
from gpuledger.kube import http
from gpuledger.kube.http import Connections
from tests.support.waiting import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


class Server:
    """Answers each request with the same bytes; a connection is closed, unsaid, after some requests."""

    def __init__(self, answer: bytes, requests: int) -> None:
        self.answer = answer
        self.requests = requests
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                for _ in range(self.requests):
                    received = b""
                    while not received.endswith(b"\r\n\r\n"):
                        more = connection.recv(65536)
                        if not more:
                            break
                        received += more
                    else:
                        connection.sendall(self.answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@contextmanager
def serving(answer: bytes, requests: int = 100) -> Iterator[Server]:
    server = Server(answer, requests)
    try:
        yield server
    finally:
        server.close()


def bodies(connections: Connections, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        with connections.get("/pods", {"limit": "5"}, {}, PATIENCE_S) as answer:
            found.append(answer.read())
    return found


def test_one_connection_serves_many_requests() -> None:
    with serving(OK % (2, b"{}")) as server:
        connections = Connections(server.url, None, PATIENCE_S)
        assert bodies(connections, 5) == [b"{}"] * 5
        connections.close()
        assert server.connections == 1


def test_a_connection_that_the_server_let_go_of_is_made_anew() -> None:
    with serving(OK % (2, b"{}"), requests=1) as server:
        connections = Connections(server.url, None, PATIENCE_S)
        assert bodies(connections, 3) == [b"{}"] * 3
        connections.close()
        assert server.connections == 3


def test_an_answer_that_was_not_read_to_its_end_ends_its_connection() -> None:
    with serving(OK % (4, b"a\nb\n")) as server:
        connections = Connections(server.url, None, PATIENCE_S)
        with connections.get("/", {}, {}, PATIENCE_S) as answer:
            assert next(answer.lines()) == b"a\n"
        assert bodies(connections, 1) == [b"a\nb\n"]
        connections.close()
        assert server.connections == 2


def test_an_answer_and_a_line_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 3)
    monkeypatch.setattr(http, "MAX_LINE_BYTES", 3)
    with serving(OK % (5, b"aaaa\n")) as server:
        connections = Connections(server.url, None, PATIENCE_S)
        with (
            connections.get("/", {}, {}, PATIENCE_S) as answer,
            pytest.raises(HTTPException, match="more than 3"),
        ):
            answer.read()
        with (
            connections.get("/", {}, {}, PATIENCE_S) as answer,
            pytest.raises(HTTPException, match="more than 3"),
        ):
            list(answer.lines())


def test_a_server_that_is_away_is_an_error_of_the_request() -> None:
    with serving(b"") as server:
        connections = Connections(server.url, None, PATIENCE_S)
    with pytest.raises(ConnectionError), connections.get("/", {}, {}, PATIENCE_S):
        pass


@pytest.mark.parametrize("url", ["kubernetes", "ftp://host", "http://", "http://host:port"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Connections(url, None, PATIENCE_S)


def test_an_agent_in_a_cluster_carries_no_http_client_beside_the_standard_library_s() -> None:
    code = "import sys, gpuledger.agent.holders.kubernetes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"httpx", "requests", "urllib3", "kubernetes", "rich"} & set(done.stdout.split())
