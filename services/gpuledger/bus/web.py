"""JSON over HTTP, one request at a time, with what the standard library has: a client in every process of the
system, the smallest included."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from gpuledger.contract.errors import ConfigError

MAX_ANSWER_BYTES: Final = 8 << 20  # the largest schema has some ten thousand


class Answer(NamedTuple):
    """A status, and the JSON that came with it; None where it was none."""

    status: int
    json: Any


class NoAnswer(Exception):
    """The server could not be reached, or fell silent."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A server that sends us elsewhere would be told our password there: that is an answer, not a way."""


class JsonClient:
    """Requests below ``base_url``; honours the usual proxy variables. Safe to share between threads.

    ``ca_file``: authorities of the server's certificate, the system's where it is None. Raises ConfigError
    for an address that is none.
    """

    def __init__(
        self,
        base_url: str,
        timeout_s: float,
        headers: Mapping[str, str],
        credentials: tuple[str, str] | None = None,
        ca_file: str | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        try:
            parts = urlsplit(base_url)
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise ConfigError("is no http or https address", base_url)
        self._timeout_s = timeout_s
        self._headers = dict(headers)
        if credentials is not None:
            token = base64.b64encode(":".join(credentials).encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file))
        )

    def request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Answer:
        """The server's answer, whatever its status. Raises NoAnswer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data, self._headers, method=method)
        try:
            try:
                with self._opener.open(request, timeout=self._timeout_s) as response:
                    return _answer(response.status, response.read(MAX_ANSWER_BYTES))
            except urllib.error.HTTPError as error:
                with error:
                    return _answer(error.code, error.read(MAX_ANSWER_BYTES))
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise NoAnswer(f"{type(reason).__name__}: {reason}") from error


def _answer(status: int, text: bytes) -> Answer:
    try:
        return Answer(status, json.loads(text))
    except (ValueError, RecursionError):
        return Answer(status, None)
