"""/metrics and /alive over HTTP, by prometheus-client's parts but for its thread, which wakes twice a second
to see whether it shall end: this one sleeps until somebody asks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from typing import Final
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

WAKE_S: Final = 86_400.0  # it ends with its process


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """That somebody asks is no news."""


def serve_metrics(port: int, address: str, registry: CollectorRegistry, problem: Callable[[], str]) -> None:
    """Answer from a thread of its own as long as the process lives: /alive with 200, or with 503 where
    ``problem`` says one (it is called in threads of the server), anything else with the metrics. Raises
    OSError where the address is no own one or the port is taken."""
    found = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

    class Server(ThreadingWSGIServer):
        address_family = found[0][0]

    metrics = make_wsgi_app(registry)

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/alive":
            answer: Iterable[bytes] = metrics(environ, start)
            return answer
        told = problem()
        start("503 Service Unavailable" if told else "200 OK", [("Content-Type", "text/plain")])
        return [f"{told or 'ok'}\n".encode()]

    server = make_server(str(found[0][4][0]), port, app, Server, _Silent)
    threading.Thread(target=server.serve_forever, args=(WAKE_S,), name="metrics", daemon=True).start()
