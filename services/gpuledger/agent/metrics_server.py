"""/metrics over HTTP, by prometheus-client's parts but for its thread, which wakes twice a second to see
whether it shall end: this one sleeps until somebody asks."""

from __future__ import annotations

import socket
import threading
from typing import Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

WAKE_S: Final = 86_400.0  # it ends with its process


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """That somebody asks is no news."""


def serve_metrics(port: int, address: str, registry: CollectorRegistry) -> None:
    """Answer from a thread of its own as long as the process lives. Raises OSError where the address is no
    own one or the port is taken."""
    found = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

    class Server(ThreadingWSGIServer):
        address_family = found[0][0]

    server = make_server(str(found[0][4][0]), port, make_wsgi_app(registry), Server, _Silent)
    threading.Thread(target=server.serve_forever, args=(WAKE_S,), name="metrics", daemon=True).start()
