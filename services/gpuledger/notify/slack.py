"""A message in the shape of Slack's incoming webhooks, which Mattermost and others take too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gpuledger.bus.access import Secret
from gpuledger.contract.records import Breach
from gpuledger.notify.http import Poster
from gpuledger.notify.notice import Kind, Notice

MAX_SECTION_CHARACTERS = 3_000  # Slack's limit of a section's text
_COLOURS = {Kind.FIRING: "#d00000", Kind.RESOLVED: "#2eb886"}
_OTHER_COLOUR = "#808080"


class Slack:
    """Posts to an incoming webhook, whose address is itself the secret."""

    def __init__(self, url: Secret, ca_file: Path | None = None) -> None:
        self._url = url
        self._poster = Poster("the chat's webhook", ca_file)

    def send(self, notice: Notice) -> None:
        """See Target.send."""
        self._poster.request("POST", self._url.get_secret_value(), message(notice))

    def keep(self, firing: Sequence[Breach], now_ns: int) -> None:
        """Nothing: a chat keeps what it was told."""

    def close(self) -> None:
        """See Target.close."""
        self._poster.close()


def message(notice: Notice) -> bytes:
    """The JSON body: a line for the notification, all of it beside a coloured bar."""
    title, *lines = (escaped(text) for text in (notice.title, *notice.lines()))
    text = "\n".join((f"*{title}*", *lines[1:]))[:MAX_SECTION_CHARACTERS]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    colour = _COLOURS.get(notice.kind, _OTHER_COLOUR)
    body = {"text": title, "attachments": [{"color": colour, "blocks": [section]}]}
    return json.dumps(body, ensure_ascii=False).encode()


def escaped(text: str) -> str:
    """As Slack wants it, so that no name of a pod becomes a link or calls the channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
