"""Files that a person gives: read whole, with a limit, named where they are wrong. And who that person is."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuledger.contract.errors import ConfigError

MAX_DOCUMENT_BYTES = 64 << 20  # a price list of every offer of a cloud has some 10 MB
_WORDS = {
    "model_type": "must be a mapping, name: value",
    "dict_type": "must be a mapping, name: value",
    "list_type": "must be a list",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
}
"""What people are told of pydantic's errors, by their type; its own words name classes of ours."""


def whoever_calls() -> str:
    """The name of the user; of one without a name, as containers have them, the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def in_words(problem: Mapping[str, Any]) -> str:
    """An entry of pydantic's ``ValidationError.errors()`` for whoever wrote the document."""
    return _WORDS.get(problem["type"]) or str(problem["msg"]).removeprefix("Value error, ")


def read_bytes(path: Path, most: int = MAX_DOCUMENT_BYTES) -> bytes:
    """All of a file. Raises ConfigError with its name where it can not be read, or has more than ``most``."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(error.strerror or "can not be read", str(path)) from None
    if len(data) > most:
        raise ConfigError(f"is over {most} bytes", str(path))
    return data


def read_text(path: Path, most: int = MAX_DOCUMENT_BYTES) -> str:
    """The same as text. Raises ConfigError also where it is not UTF-8, with the line where that begins."""
    data = read_bytes(path, most)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("this is not UTF-8: is it the right file?", f"{path}:{line}") from None
