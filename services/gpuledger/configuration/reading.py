"""Documents from files, and the published ones as if they were files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from gpuledger.bus import BusSettings
from gpuledger.configuration.publish import KIND_OF_RECORD, Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import BudgetsVersion, PriceBookVersion, TeamMapVersion
from gpuledger.documents import read_text
from gpuledger.pricing.yaml_budgets import span_ns
from gpuledger.pricing.yaml_documents import InvalidDocument, Version, places_of_ids, read_documents
from gpuledger.pricing.yaml_values import instant_ns

V = TypeVar("V", PriceBookVersion, TeamMapVersion, BudgetsVersion)


def read_files(files: Sequence[Path]) -> list[Version]:
    """The documents of all files. Raises InvalidDocument with every mistake of every file, ConfigError for
    two documents of one kind: a kind has one whole document."""
    documents: list[Version] = []
    problems: list[str] = []
    for path in files:
        try:
            documents += read_documents(read_text(path), str(path))
        except InvalidDocument as error:
            problems += error.problems
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise InvalidDocument(problems)
    kinds = [type(document) for document in documents]
    if len(set(kinds)) < len(kinds):
        raise ConfigError("there are two documents of one kind; join them, a kind has one whole document")
    return documents


def instant(text: str | None, option: str) -> int:
    """ns since the Unix epoch of an option's instant; now where it is not given. Raises ConfigError."""
    if text is None:
        return SystemClock().unix_ns()
    try:
        return instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), option) from None


def span(text: str, option: str) -> int:
    """ns of an option's span of time such as 24h. Raises ConfigError."""
    try:
        return span_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), option) from None


def published_or_file(kind: type[V], file: Path | None, at_ns: int) -> tuple[V, dict[str, str]]:
    """The document of a file, or the published one that holds for a window at an instant; and where in it
    each id is. Raises Refused where nothing is published, Unavailable."""
    if file is not None:
        found = [document for document in read_files([file]) if isinstance(document, kind)]
        if not found:
            raise ConfigError(f"there is no document of kind {KIND_OF_RECORD[kind.__name__]}", str(file))
        return found[0], places_of_ids(found[0].document, str(file))
    versions = Documents(BusSettings.load(), SystemClock()).versions(kind)
    active = [
        version for version in versions if isinstance(version, kind) and version.active_from_ns <= at_ns
    ]
    if not active:
        raise Refused(f"no {KIND_OF_RECORD[kind.__name__]} are published that hold then; give a --file")
    last = active[-1]
    name = f"{KIND_OF_RECORD[kind.__name__]} version {last.version}"
    return last, places_of_ids(last.document, name)
