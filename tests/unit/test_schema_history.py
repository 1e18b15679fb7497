"""No schema changes without an entry, and no entry breaks what was written before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gpuledger.contract import history
from gpuledger.contract.errors import Refused
from gpuledger.contract.schemas import canonical_text, schema, schema_directory
from gpuledger.contract.topics import SCHEMA_FILES

RECORDS = sorted(SCHEMA_FILES)


@pytest.mark.parametrize("record", RECORDS)
def test_the_current_schema_is_the_newest_of_its_history(record: str) -> None:
    versions = history.versions(record)
    assert versions, "run: python -m gpuledger.contract.history add"
    assert canonical_text(versions[-1]) == canonical_text(schema(record)), (
        f"{record} has changed: run python -m gpuledger.contract.history add"
    )


@pytest.mark.parametrize("record", RECORDS)
def test_every_version_can_read_all_before_it(record: str) -> None:
    versions = history.versions(record)
    for number, reader in enumerate(versions):
        for writer in versions[: number + 1]:
            assert history.backward_problem(reader, writer) is None


def _changed(directory: Path, field: dict[str, object]) -> None:
    path = directory / f"{SCHEMA_FILES['Generation']}.avsc"
    parsed = json.loads(path.read_text())
    parsed["fields"].append(field)
    path.write_text(json.dumps(parsed))


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """A copy of the schemas with their first versions."""
    copy = tmp_path / "schemas"
    copy.mkdir()
    for file in schema_directory().glob("*.avsc"):
        shutil.copy(file, copy)
    assert len(history.add(tmp_path / "history", copy)) == len(RECORDS)
    return copy


def test_adding_twice_writes_nothing_new(schemas: Path) -> None:
    assert history.add(schemas.parent / "history", schemas) == []


def test_a_field_with_a_default_becomes_a_version(schemas: Path) -> None:
    _changed(schemas, {"name": "later", "type": "long", "default": 0})
    (written,) = history.add(schemas.parent / "history", schemas)
    assert (written.parent.name, written.name) == ("io.gpuledger.Generation", "2.avsc")


@pytest.mark.parametrize(
    "field",
    [
        {"name": "later", "type": "long"},
        {"name": "later", "type": {"type": "array", "items": "double"}},
    ],
)
def test_a_field_without_a_default_is_refused_and_nothing_is_written(
    schemas: Path, field: dict[str, object]
) -> None:
    _changed(schemas, field)
    with pytest.raises(Refused, match=r"generation.avsc cannot read version 1"):
        history.add(schemas.parent / "history", schemas)
    assert len(history.versions("Generation", schemas.parent / "history")) == 1


def test_a_missing_version_is_refused(schemas: Path) -> None:
    folder = schemas.parent / "history" / "io.gpuledger.Generation"
    (folder / "1.avsc").rename(folder / "2.avsc")
    with pytest.raises(Refused, match=r"must be 1.avsc to 1.avsc, not \[2\]"):
        history.versions("Generation", schemas.parent / "history")
