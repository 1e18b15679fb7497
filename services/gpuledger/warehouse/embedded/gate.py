"""Who may speak to the embedded server: one user, and no web page."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode

DEFAULT_USER = "default"
_LOCAL_NAMES = {"localhost", "ip6-localhost"}


@dataclass(frozen=True)
class Gate:
    """Admits ``user`` with ``password``; an empty password admits that user with any (as ClickHouse does).

    Without a password only the machine's own names are accepted in Host and Origin, so that no page in a
    browser can reach the port by a rebound name or a cross-site form.
    """

    user: str = DEFAULT_USER
    password: str = ""

    def admit(self, request: web.Request) -> None:
        """Raise EngineError when the request may not come in."""
        if not self.password:
            _only_local(request)
        user, password = _credentials(request)
        known = hmac.compare_digest(_octets(user), self.user.encode())
        right = not self.password or hmac.compare_digest(_octets(password), self.password.encode())
        if not (known and right):
            shown = _octets(user).decode(errors="replace")
            raise EngineError(
                ErrorCode.AUTHENTICATION_FAILED,
                f"{shown}: Authentication failed: password is incorrect, or there is no user with such name.",
            )


def _credentials(request: web.Request) -> tuple[str, str]:
    header = request.headers.get("Authorization", "")
    if header[:6].lower() == "basic ":
        try:
            user, _, password = base64.b64decode(header[6:], validate=True).decode().partition(":")
        except (binascii.Error, ValueError) as error:
            raise EngineError(ErrorCode.AUTHENTICATION_FAILED, "Invalid HTTP Authorization header") from error
        return user, password
    if header:
        raise EngineError(ErrorCode.AUTHENTICATION_FAILED, "Invalid authentication: only Basic is supported")
    named = request.headers.get("X-ClickHouse-User")
    if named is not None:
        return named, request.headers.get("X-ClickHouse-Key", "")
    return request.query.get("user", DEFAULT_USER), request.query.get("password", "")


def _only_local(request: web.Request) -> None:
    origin = request.headers.get("Origin")
    urls = [f"//{request.host}"] if origin is None else [f"//{request.host}", origin]
    if not all(is_local(_host(url)) for url in urls):
        raise EngineError(
            ErrorCode.ACCESS_DENIED, "Without a password only this machine's own names are accepted"
        )


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:  # half of an IPv6 address
        return None


def _octets(text: str) -> bytes:
    """The bytes of a header's text: aiohttp hands on what is no UTF-8 as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def is_local(host: str | None) -> bool:
    """Whether a host name can only mean this machine."""
    if host is None or host in _LOCAL_NAMES:
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
