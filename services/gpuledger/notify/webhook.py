"""A signed webhook after the Standard Webhooks specification (github.com/standard-webhooks), version 1.

``webhook-id`` is the same at each attempt, ``webhook-timestamp`` the attempt's own (s since the Unix epoch),
``webhook-signature`` is ``v1,`` and the base64 of HMAC-SHA256 over ``id.timestamp.body``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuledger.bus.access import Secret
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.records import Breach
from gpuledger.notify.http import Poster
from gpuledger.notify.notice import Notice, instant

SECRET_PREFIX = "whsec_"


class Webhook:
    """Posts each notice as JSON, signed with ``secret``."""

    def __init__(self, url: str, secret: Secret, clock: Clock, ca_file: Path | None = None) -> None:
        self._url = url
        self._key = key_of(secret.get_secret_value())
        self._clock = clock
        self._poster = Poster("the webhook", ca_file)

    def send(self, notice: Notice) -> None:
        """See Target.send."""
        body = payload(notice)
        timestamp = self._clock.unix_ns() // NS_PER_S
        self._poster.request(
            "POST",
            self._url,
            body,
            {
                "webhook-id": notice.id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(self._key, notice.id, timestamp, body),
            },
        )

    def keep(self, firing: Sequence[Breach], now_ns: int) -> None:
        """Nothing: a webhook hears of changes."""

    def close(self) -> None:
        """See Target.close."""
        self._poster.close()


def key_of(secret: str) -> bytes:
    """The key that a secret stands for: base64 behind ``whsec_``, else its bytes. Raises ValueError."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {SECRET_PREFIX} is not base64") from None


def signature(key: bytes, notice_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of ``webhook-signature``."""
    signed = hmac.new(key, f"{notice_id}.{timestamp_s}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def payload(notice: Notice) -> bytes:
    """The JSON body. Amounts are integers in 1e-9 of the currency, times ns since the epoch, as in Avro."""
    breach: dict[str, Any] = dataclasses.asdict(notice.breach)
    body = {
        "type": f"breach.{notice.kind}",
        "timestamp": instant(notice.at_ns),
        "data": {
            "notice_id": notice.id,
            "severity": notice.severity,
            "title": notice.title,
            "text": "\n".join(notice.lines()),
            "breach": breach,
        },
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
