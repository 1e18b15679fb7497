"""Where an API server (or a kubelet) is, how to get in, and single requests to it."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpuledger.contract.errors import ConfigError, Unavailable
from gpuledger.kube.http import FAILURES, Answer, Connections

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_S = 5.0  # inside one cluster; a server that takes longer is away
READ_S = 15.0  # a page of a list; the server's own limit of a request is 60 s
PAGE_ITEMS = 500  # as kubectl asks: a page stays in the server's cache and below some MB


class Expired(Unavailable):
    """The resource version is too old (HTTP 410): list again."""


class Refusal(Unavailable):
    """The server answers with an HTTP error other than 410; ``status`` is its code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class KubeAccess:
    """A server and the files that let us in. The token is read for each request: kubelets renew it hourly.

    ``verify`` false takes any certificate: only for a kubelet on the same host, whose certificate is most
    often its own.
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    verify: bool = True

    @staticmethod
    def in_cluster() -> KubeAccess:
        """As every pod finds its API server. Raises ConfigError outside a cluster."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise ConfigError(
                "KUBERNETES_SERVICE_HOST is not set: outside a cluster say --kube-api URL, "
                "such as that of kubectl proxy",
                "environment",
            )
        host = f"[{host}]" if ":" in host else host
        return KubeAccess(f"https://{host}:{port}", SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt")


class KubeClient:
    """Requests to one server. Each may be made from any thread; whoever made it closes it."""

    def __init__(self, access: KubeAccess) -> None:
        """Raises ConfigError where the file of authorities can not be used."""
        self._access = access
        self._connections = Connections(access.url, _trust(access), CONNECT_S)

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object. Raises Unavailable (Expired for a version that is too old, Refusal with the status)."""
        try:
            with self._connections.get(path, parameters or {}, self._headers(), READ_S) as answer:
                body = answer.read()
            self._check(answer.status, path)
            found = json.loads(body)
        except (*FAILURES, ValueError, RecursionError) as error:
            raise Unavailable(self._said(path, error)) from error
        if not isinstance(found, dict):
            raise Unavailable(f"{self._access.url}{path}: the answer is no object")
        return found

    def items(
        self, path: str, parameters: Mapping[str, str] | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        """All items, page by page, and the resource version to watch from. Raises Unavailable."""
        found: list[dict[str, Any]] = []
        wanted = {**(parameters or {}), "limit": str(PAGE_ITEMS)}
        while True:
            page = self.get(path, wanted)
            found += [item for item in page.get("items") or () if isinstance(item, dict)]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return found, str(metadata.get("resourceVersion") or "")
            wanted["continue"] = str(metadata["continue"])

    @contextmanager
    def stream(self, path: str, parameters: Mapping[str, str], read_s: float) -> Iterator[Answer]:
        """An answer whose lines are read one by one; silent for ``read_s`` it is given up (Unavailable)."""
        try:
            with self._connections.get(path, parameters, self._headers(), read_s) as answer:
                self._check(answer.status, path)
                yield answer
        except FAILURES as error:
            raise Unavailable(self._said(path, error)) from error

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpuledger"}
        file = self._access.token_file
        if file is None:
            return headers
        try:
            return {**headers, "Authorization": f"Bearer {file.read_text(encoding='ascii').strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"{file}: {error}") from error

    def _check(self, status: int, path: str) -> None:
        if status == HTTPStatus.GONE:
            raise Expired(f"{self._access.url}{path}: 410 Gone")
        if status >= HTTPStatus.BAD_REQUEST:
            hint = " (is the ClusterRole bound?)" if status in (401, 403) else ""
            raise Refusal(f"{self._access.url}{path}: HTTP {status}{hint}", status)

    def _said(self, path: str, error: Exception) -> str:
        return f"{self._access.url}{path}: {type(error).__name__} {error}".rstrip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _trust(access: KubeAccess) -> ssl.SSLContext | None:
    if not access.url.startswith("https:"):
        return None
    try:
        trust = ssl.create_default_context(cafile=str(access.ca_file) if access.ca_file else None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"holds no certificates: {error}", str(access.ca_file)) from error
    if not access.verify:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust
