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
        known = hmac.compare_digest(user.encode(), self.user.encode())
        right = not self.password or hmac.compare_digest(password.encode(), self.password.encode())
        if not (known and right):
            raise EngineError(
                ErrorCode.AUTHENTICATION_FAILED,
                f"{user}: Authentication failed: password is incorrect, or there is no user with such name.",
            )


def _credentials(request: web.Request) -> tuple[str, str]:
    header = request.headers.get("Authorization", "")
    if header[:6].lower() == "basic ":
        try:
            user, _, password = base64.b64decode(header[6:], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
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
    hosts = [urlsplit(f"//{request.host}").hostname]
    if origin is not None:
        hosts.append(urlsplit(origin).hostname)
    if not all(is_local(host) for host in hosts):
        raise EngineError(
            ErrorCode.ACCESS_DENIED, "Without a password only this machine's own names are accepted"
        )


def is_local(host: str | None) -> bool:
    """Whether a host name can only mean this machine."""
    if host is None or host in _LOCAL_NAMES:
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
