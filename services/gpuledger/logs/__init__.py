"""Log lines as JSON on stderr, for processes that must stay small: events with fields, as structlog has them.

structlog brings asyncio and rich along, 14 MB of the 45 that a node's agent may take; the standard library's
``logging``, over which this is a few lines, is loaded by the Kafka client anyhow.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO


class Event:
    """What is logged. A formatter that knows nothing of fields has them behind the event's name."""

    def __init__(self, name: str, fields: dict[str, object]) -> None:
        self.name = name
        self.fields = fields

    def __str__(self) -> str:
        return " ".join((self.name, *(f"{name}={value!r}" for name, value in self.fields.items())))


class EventLog:
    """Says what happened, as an event's name and its fields; safe from any thread.

    Not every process writes `JsonLines`: Faust, for one, has its own way.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, event: str, **fields: object) -> None:
        """What is as it should be."""
        self._logger.info(Event(event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """What someone may have to look at if it lasts."""
        self._logger.warning(Event(event, fields))

    def error(self, event: str, **fields: object) -> None:
        """What lost something."""
        self._logger.error(Event(event, fields))

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception that is being handled."""
        self._logger.error(Event(event, fields), exc_info=True)


class JsonLines(logging.Formatter):
    """A line for each record: its fields, ``event``, ``level``, ``timestamp`` (UTC), ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        said = record.msg if isinstance(record.msg, Event) else Event(record.getMessage(), {})
        line = {
            **said.fields,
            "event": said.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr, ensure_ascii=False)


def write_json_lines(stream: TextIO | None = None) -> None:
    """Have all log records of this process, those of libraries from warnings up, written as `JsonLines`.

    ``stream``: stderr unless it is given.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpuledger").setLevel(logging.INFO)
