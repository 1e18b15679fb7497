"""Files that a person gives: read whole, with a limit, and said by name where they are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from gpuledger import documents
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.pricing.yaml_values import instant_ns

MAX_FILE_BYTES = 256 << 20  # a scrape of a thousand nodes has some 100 MB
AVRO_MAGIC = b"Obj\x01"
_UNITS = {"s": NS_PER_S, "m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}
_DURATION = re.compile(r"(?:\d{1,6}[smhd])+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+)([smhd])", re.ASCII)
_TIME_IN_NAME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T(\d\d)[-:]?(\d\d)[-:]?(\d\d)Z", re.ASCII)


def read_bytes(path: Path) -> bytes:
    """All of a file. Raises ConfigError where it can not be read or is over the limit."""
    return documents.read_bytes(path, MAX_FILE_BYTES)


def as_text(data: bytes, path: Path) -> str:
    """UTF-8 text of a file. Raises ConfigError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError("is neither text in UTF-8 nor an Avro file", str(path)) from None


def as_document(text: str, path: Path) -> Any:
    """The JSON or YAML document in a text. Raises ConfigError."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"is neither JSON nor YAML: {getattr(error, 'problem', error)}", place) from None


def duration_ns(text: str, option: str) -> int:
    """ns of a duration such as ``30s``, ``15m``, ``1h30m`` or ``7d``. Raises ConfigError."""
    total = 0
    if _DURATION.fullmatch(text):
        total = sum(int(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    if not 0 < total <= 366 * DAY_NS:
        raise ConfigError(f"{text!r} is no duration such as 30s, 1h30m or 7d, of a year at most", option)
    return total


def instant(text: str, option: str) -> int:
    """ns since the Unix epoch of an instant such as ``2026-01-01T00:00:00Z``. Raises ConfigError."""
    try:
        return instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), option) from None


def time_in_name(path: Path) -> int | None:
    """The instant that a file's name states, such as ``scrape-2026-01-01T00-15-00Z.txt``."""
    found = _TIME_IN_NAME.search(path.name)
    if found is None:
        return None
    year, month, day, hour, minute, second = found.groups()
    try:
        return instant_ns(f"{year}-{month}-{day}T{hour}:{minute}:{second}Z")
    except ValueError:
        return None
