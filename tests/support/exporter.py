"""A dcgm-exporter as it is on the network: a real HTTP server that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DRIP_S = 0.05


class Exporter:
    """``text`` is what it says. ``behaviour``: ok, hang, drip, close, cut, or an HTTP status."""

    def __init__(self) -> None:
        self.text = ""
        self.behaviour = "ok"
        self.scrapes = 0
        self.released = threading.Event()
        self.url = ""

    def say(self, values: Mapping[str, object], labels: str = 'gpu="0"') -> None:
        """Set the text: one line a field."""
        self.text = "".join(f"{field}{{{labels}}} {value}\n" for field, value in values.items())


@contextmanager
def exporter() -> Iterator[Exporter]:
    """A running exporter on loopback."""
    told = Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.scrapes += 1
            answer(self, told)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/metrics"
    try:
        yield told
    finally:
        told.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, told: Exporter) -> None:
    """One answer, in the behaviour that is set."""
    body = told.text.encode()
    if told.behaviour == "hang":
        told.released.wait(30)
        return
    if told.behaviour == "close":
        handler.close_connection = True
        return
    status = int(told.behaviour) if told.behaviour.isdigit() else 200
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4")
    handler.send_header("Content-Length", str(len(body) + (1000 if told.behaviour in ("cut", "drip") else 0)))
    handler.end_headers()
    handler.wfile.write(body)
    while told.behaviour == "drip" and not told.released.wait(DRIP_S):
        try:
            handler.wfile.write(b"#")
        except OSError:
            return
