"""An HTTP server that keeps what it was sent, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Hit(NamedTuple):
    """A request: path, headers in lower case, body, and the status that it was answered with."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Hook:
    """`status` is the answer to everything from now on; `coming` are those before, with their Retry-After."""

    def __init__(self) -> None:
        self.status = 200
        self.retry_after = ""
        self.coming: deque[tuple[int, str]] = deque()
        self.hits: list[Hit] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, retry_after = hook.status, hook.retry_after
                if hook.coming:
                    status, retry_after = hook.coming.popleft()
                hook.hits.append(Hit(self.path, headers, body, status))
                self.send_response(status)
                if retry_after:
                    self.send_header("Retry-After", retry_after)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def taken(self) -> list[Hit]:
        return [hit for hit in self.hits if hit.status < 300]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def hook() -> Iterator[Hook]:
    """A running server, gone afterwards."""
    server = Hook()
    try:
        yield server
    finally:
        server.close()
