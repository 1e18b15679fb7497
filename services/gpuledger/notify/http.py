"""Posting to a target over HTTP: what its answers mean."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from gpuledger.contract.errors import TargetAway, TargetRefused

TIMEOUT_S = 10.0  # a chat service answers within one; a longer silence is tried again
MAX_WAIT_S = 600.0  # a pause that a target asks for is kept, but not for hours
MAX_SAID_CHARACTERS = 200
# The notice itself is wrong, so another attempt would fail too. All other refusals (no right, no such
# address, too many at once) are mended by somebody while we wait.
NEVER = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)

logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs addresses, and some are secrets


class Poster:
    """A connection to one target. No redirects: elsewhere would be told what is not for it.

    ``shown`` stands for the address in errors, for addresses that are secrets themselves.
    """

    def __init__(
        self,
        shown: str,
        ca_file: Path | None = None,
        headers: Mapping[str, str] | None = None,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self._shown = shown
        self._client = httpx.Client(
            timeout=TIMEOUT_S,
            headers=dict(headers or {}),
            auth=credentials,
            verify=ssl.create_default_context(cafile=None if ca_file is None else str(ca_file)),
            follow_redirects=False,
        )

    def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of the answer, None where it is none. Raises TargetAway, TargetRefused."""
        sent = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers
        try:
            answer = self._client.request(method, url, content=body, headers=sent)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TargetAway(f"{self._shown} does not answer: {type(error).__name__}") from None
        if not answer.is_success:
            raise self._refusal(answer)
        try:
            return answer.json()
        except ValueError:
            return None

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _refusal(self, answer: httpx.Response) -> TargetAway | TargetRefused:
        said = " ".join(answer.text[:MAX_SAID_CHARACTERS].split())
        message = f"{self._shown} answered {answer.status_code}: {said}"
        if answer.status_code in NEVER:
            return TargetRefused(message)
        return TargetAway(message, _asked_pause_s(answer.headers.get("Retry-After", "")))


def _asked_pause_s(text: str) -> float:
    return min(float(text), MAX_WAIT_S) if text.isdecimal() else 0.0
