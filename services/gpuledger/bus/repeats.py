"""Kafka's clients say the same thing many times a second while a broker is away; once in a while will do."""

from __future__ import annotations

import logging
import re

PAUSE_S = 10.0
MAX_KEPT = 500  # different messages that are remembered; then all are forgotten, and said once more
_NUMBERS = re.compile(r"\d+")


class Repeats(logging.Filter):
    """Lets a message through once in ``pause_s``, with how often it came meanwhile.

    Messages of one logger that differ in numbers only (times, ids, ports) are one.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        super().__init__()
        self._pause_s = pause_s
        self._said: dict[tuple[str, str], tuple[float, int]] = {}  # when it was said, how often not since

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        said = record.getMessage()
        key = record.name, _NUMBERS.sub("#", said)
        last_s, kept_back = self._said.get(key, (float("-inf"), 0))
        if record.created - last_s < self._pause_s:
            self._said[key] = last_s, kept_back + 1
            return False
        if len(self._said) >= MAX_KEPT:
            self._said.clear()
        self._said[key] = record.created, 0
        if kept_back:
            record.msg, record.args = f"{said} (and {kept_back} times before)", ()
        return True


def quieten(prefix: str) -> None:
    """Put a filter on every logger there is by now whose name begins so."""
    repeats = Repeats()
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(prefix):
            logging.getLogger(name).addFilter(repeats)
