"""The small files beside the segments: up to where all is delivered, and from which segments something may
have been handed to a producer."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

ACKNOWLEDGED: Final = "acknowledged"
HANDED: Final = "handed"
NONE_HANDED: Final = -1


class Position(NamedTuple):
    """A place between entries: byte ``offset`` of segment number ``segment``."""

    segment: int
    offset: int


def read_acknowledged(directory: Path) -> Position | None:
    """Up to where all was delivered; None where nothing says it."""
    try:
        segment, offset = (directory / ACKNOWLEDGED).read_text(encoding="ascii").split()
        return Position(int(segment), int(offset))
    except (OSError, ValueError):
        return None


def write_acknowledged(directory: Path, through: Position) -> None:
    """Say up to where all is delivered. Raises OSError."""
    _write(directory / ACKNOWLEDGED, f"{through.segment} {through.offset}\n")


def read_handed(directory: Path) -> int:
    """The latest segment of which something may have been handed out; `NONE_HANDED` for none."""
    try:
        return int((directory / HANDED).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return NONE_HANDED


def write_handed(directory: Path, segment: int) -> None:
    """Say of which segments something may be handed out from now on. Raises OSError."""
    _write(directory / HANDED, f"{segment}\n")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text, encoding="ascii")
    temporary.replace(path)
