"""GET requests to one server over kept connections, with what the standard library has: an HTTP client takes
5 MB of each agent, a tenth of all that it may."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import urlencode, urlsplit

from gpuledger.contract.errors import ConfigError

MAX_ANSWER_BYTES: Final = 64 << 20  # a page of 500 pods has some MB
MAX_LINE_BYTES: Final = 4 << 20  # an object of the API server has 1.5 MB at most
MAX_KEPT: Final = 4  # idle connections

FAILURES: Final = (OSError, HTTPException)
"""What a request can raise: the server is away, silent, or speaks no HTTP."""


class Answer:
    """A status and the body behind it, which is read once: whole, or line by line."""

    def __init__(self, response: HTTPResponse, connected: socket.socket) -> None:
        self._response = response
        self._socket = connected
        self.status: Final = response.status

    def read(self) -> bytes:
        """The whole body. Raises HTTPException for one that has no end in sight."""
        body = self._response.read(MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            raise HTTPException(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        return body

    def lines(self) -> Iterator[bytes]:
        """The lines as they come. Raises HTTPException for one that has no end in sight."""
        while line := self._response.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise HTTPException(f"a line has more than {MAX_LINE_BYTES} bytes")
            yield line

    @property
    def is_read(self) -> bool:
        """Whether the connection can serve another request."""
        return self._response.isclosed() and not self._response.will_close

    def abort(self) -> None:
        """Have whoever reads, in another thread, see the end now."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """Connections to the server of ``url``; each request may be made from any thread.

    ``trust``: how an https server is known. Raises ConfigError for an address that is none.
    """

    def __init__(self, url: str, trust: ssl.SSLContext | None, connect_s: float) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError("is no http or https address", url) from error
        if parts.scheme not in ("http", "https") or not self._host:
            raise ConfigError("is no http or https address", url)
        self._path = parts.path.rstrip("/")
        self._trust = trust if parts.scheme == "https" else None
        self._secure = parts.scheme == "https"
        self._connect_s = connect_s
        self._kept: list[HTTPConnection] = []
        self._lock = threading.Lock()

    @contextmanager
    def get(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], read_s: float
    ) -> Iterator[Answer]:
        """The answer; silent for ``read_s`` it is given up. Raises `FAILURES`."""
        target = self._path + path + (f"?{urlencode(parameters)}" if parameters else "")
        connection, answer = self._ask(target, headers, read_s)
        try:
            yield answer
        finally:
            if answer.is_read:
                self._keep(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _ask(self, target: str, headers: Mapping[str, str], read_s: float) -> tuple[HTTPConnection, Answer]:
        with self._lock:
            kept = self._kept.pop() if self._kept else None
        if kept is not None:
            try:
                return kept, _answer(kept, target, headers, read_s)
            except TimeoutError:
                kept.close()
                raise
            except FAILURES:
                kept.close()  # the server has let go of it meanwhile
        connection = self._connection()
        try:
            return connection, _answer(connection, target, headers, read_s)
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> HTTPConnection:
        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=self._connect_s, context=self._trust)
        return HTTPConnection(self._host, self._port, timeout=self._connect_s)

    def _keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < MAX_KEPT:
                self._kept.append(connection)
                return
        connection.close()


def _answer(connection: HTTPConnection, target: str, headers: Mapping[str, str], read_s: float) -> Answer:
    if connection.sock is None:
        connection.connect()
    connected: socket.socket = connection.sock
    connected.settimeout(read_s)
    connection.request("GET", target, headers=dict(headers))
    return Answer(connection.getresponse(), connected)
