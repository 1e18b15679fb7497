"""One call of a gRPC service on a unix socket: HTTP/2 by h2, which takes a tenth of what grpc does (10 MB and
three threads that wake by themselves).

A call has a connection of its own: nothing is kept that could go stale, and none grows with the calls made.
Format: PROTOCOL-HTTP2.md of grpc, for a request and an answer of one message each, neither compressed.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

READ_BYTES: Final = 64 << 10
OK: Final = 0
UNIMPLEMENTED: Final = 12
"""Status codes of grpc."""
_STATUS, _MESSAGE = b"grpc-status", b"grpc-message"
_PREFIX: Final = struct.Struct(">BI")  # whether the message is compressed, its length
_CONFIGURATION: Final = H2Configuration(header_encoding=None)


class CallFailed(Exception):
    """The service answered, with another status than OK. ``status``: grpc's code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status} {message}".rstrip())
        self.status = status


def call(path: Path, method: str, request: bytes, timeout_s: float, most_bytes: int) -> bytes:
    """The answer's message. ``method``: /SERVICE/METHOD.

    Raises CallFailed, and OSError where the service is away, silent for too long, or speaks no gRPC.
    """
    with socket.socket(socket.AF_UNIX) as connected:
        pending = _Call(connected, time.monotonic() + timeout_s, most_bytes)
        try:
            connected.settimeout(timeout_s)
            connected.connect(str(path))
            return pending.answer(method, request, timeout_s)
        except ProtocolError as error:
            raise OSError(f"it speaks no HTTP/2: {error}") from error


class _Call:
    def __init__(self, connected: socket.socket, deadline_s: float, most_bytes: int) -> None:
        self._socket = connected
        self._deadline_s = deadline_s
        self._most_bytes = most_bytes
        self._http = H2Connection(_CONFIGURATION)
        self._body = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._is_over = False

    def answer(self, method: str, request: bytes, timeout_s: float) -> bytes:
        http = self._http
        http.initiate_connection()
        stream = http.get_next_available_stream_id()
        http.send_headers(
            stream,
            [
                *((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")),
                *(("te", "trailers"), ("content-type", "application/grpc")),
                ("grpc-timeout", f"{1000 * timeout_s:.0f}m"),
            ],
        )
        http.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
        while not self._is_over:
            self._socket.sendall(http.data_to_send())
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer in time")
            self._socket.settimeout(left_s)
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError("the connection ended before the answer")
            self._take(http.receive_data(data))
        return self._message()

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ResponseReceived | TrailersReceived):
                self._headers.update(event.headers)
            elif isinstance(event, DataReceived):
                self._body += event.data
                if len(self._body) > self._most_bytes:
                    raise OSError(f"the answer has more than {self._most_bytes} bytes")
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self._is_over = True
            elif isinstance(event, StreamReset | ConnectionTerminated):
                raise ConnectionResetError(f"the service broke the call off: {event.error_code!r}")

    def _message(self) -> bytes:
        status = self._headers.get(_STATUS, b"")
        if not status.isdigit():
            raise OSError(f"no gRPC answers there: HTTP status {self._headers.get(b':status', b'')!r}")
        if int(status) != OK:
            raise CallFailed(
                int(status), unquote(self._headers.get(_MESSAGE, b"").decode("ascii", "replace"))
            )
        body = bytes(self._body)
        if len(body) < _PREFIX.size or _PREFIX.unpack_from(body) != (0, len(body) - _PREFIX.size):
            raise OSError("the answer is not one message")
        return body[_PREFIX.size :]
