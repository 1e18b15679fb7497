"""One scrape of an exporter over HTTP: bounded in time and size, and never in the way of who asks for it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gpuledger.agent.nvml import Missing
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import ConfigError

CALL_TIMEOUT_S: Final = 2.0  # an exporter answers from memory, within milliseconds
TOTAL_TIMEOUT_S: Final = 5.0  # also where it sends a byte now and then
MAX_BYTES: Final = 16 << 20  # a node of 16 GPUs with 7 slices and 100 fields writes some 6 MB
_CHUNK_BYTES: Final = 1 << 16
_PORTS: Final = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def exporter_url(url: str) -> SplitResult:
    """The parts of an exporter's URL. Raises ConfigError where it is none."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{url!r} is no http or https URL; an example is http://127.0.0.1:9400/metrics")
    return parts


class Scrape:
    """A request that runs in a thread of its own from the moment it is made.

    ``text`` may be asked for by one other thread; whoever made it calls `abandon` where it is not awaited.
    """

    def __init__(self, url: SplitResult, clock: Clock, max_bytes: int = MAX_BYTES) -> None:
        assert url.hostname is not None
        self._url = url
        self._clock = clock
        self._max_bytes = max_bytes
        self._began_ns = clock.boot_ns()
        self._connection = _PORTS[url.scheme](url.hostname, url.port, timeout=CALL_TIMEOUT_S)
        self._text: str | None = None
        self._problem: Missing | None = None
        self._thread = threading.Thread(target=self._run, name="exporter-scrape", daemon=True)
        self._thread.start()

    @property
    def age_s(self) -> float:
        """How long ago it began."""
        return (self._clock.boot_ns() - self._began_ns) / NS_PER_S

    def text(self, wait_s: float) -> str | None:
        """What the exporter said; None where it has not answered by then. Raises Missing with the reason."""
        self._thread.join(wait_s)
        if self._thread.is_alive():
            return None
        if self._problem is not None:
            raise self._problem
        return self._text or ""

    def abandon(self) -> None:
        """Ends the request at once; the thread ends by itself."""
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            self._text = self._fetch()
        except TimeoutError:
            self._problem = Missing("timeout")
        except Missing as problem:
            self._problem = problem
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            # AttributeError: http.client's own, where the request was abandoned while it connected
            self._problem = Missing("unreachable")
        finally:
            self._connection.close()

    def _fetch(self) -> str:
        path = self._url.path or "/metrics"
        query = f"?{self._url.query}" if self._url.query else ""
        self._connection.request("GET", path + query, headers={"Accept": "text/plain"})
        with contextlib.closing(self._connection.getresponse()) as response:
            return self._body(response)

    def _body(self, response: http.client.HTTPResponse) -> str:
        if response.status != http.client.OK:
            raise Missing(f"http_{response.status}")
        body = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._max_bytes:
                raise Missing("too_large")
            if self.age_s > TOTAL_TIMEOUT_S:
                raise TimeoutError
        if response.length:
            raise Missing("cut_short")
        return body.decode("utf-8", "replace")
