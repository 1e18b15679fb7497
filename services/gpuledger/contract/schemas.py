"""The .avsc files: found, read, and in the one canonical form in which they are registered."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gpuledger.contract.topics import SCHEMA_FILES

_PACKAGED = Path(__file__).resolve().parent.parent / "_schemas"  # where a wheel carries them
_CHECKOUT = Path(__file__).resolve().parents[3] / "schemas"


def schema_directory() -> Path:
    """The folder with the .avsc files: inside an installed wheel, else at the top of the checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


@cache
def schema(record: str) -> dict[str, Any]:
    """Parsed schema of the record of that short name (``EventBatch``); do not change it."""
    parsed: dict[str, Any] = json.loads((schema_directory() / f"{SCHEMA_FILES[record]}.avsc").read_text())
    return parsed


def canonical_text(parsed: Any) -> str:
    """One text for one schema: keys in the file's order, no white space. Docs and annotations are kept,
    since a reader in another language wants them too."""
    return json.dumps(parsed, separators=(",", ":"), ensure_ascii=False)


@cache
def schema_text(record: str) -> str:
    """Canonical text of the record's schema."""
    return canonical_text(schema(record))
