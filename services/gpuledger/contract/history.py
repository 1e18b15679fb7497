"""Every version of each schema that was ever current, so that no change breaks what lies in Kafka.

schemas/history/FULL.NAME/1.avsc, 2.avsc, ... oldest first; the newest equals schemas/*.avsc. A version once
published is never edited. `python -m gpuledger.contract.history add` appends what has changed.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
from fastavro.utils import generate_many

from gpuledger.contract.errors import GpuledgerError, Refused
from gpuledger.contract.schemas import canonical_text, schema_directory
from gpuledger.contract.topics import NAMESPACE, SCHEMA_FILES

SAMPLES = 64  # records made at random of the old schema; enough to meet every branch of our small unions
SEED = 23


def history_directory() -> Path:
    """Where the versions lie."""
    return schema_directory() / "history"


def versions(record: str, directory: Path | None = None) -> list[Mapping[str, Any]]:
    """Every version of the record of that short name, parsed, oldest first. Raises Refused for a gap."""
    folder = (directory or history_directory()) / f"{NAMESPACE}.{record}"
    numbers = sorted(int(path.stem) for path in folder.glob("*.avsc"))
    if numbers != list(range(1, len(numbers) + 1)):
        raise Refused(f"{folder}: versions must be 1.avsc to {len(numbers)}.avsc, not {numbers}")
    return [json.loads((folder / f"{number}.avsc").read_text(encoding="utf-8")) for number in numbers]


def backward_problem(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> str | None:
    """Why `reader` cannot read what `writer` wrote, or None; fastavro tries SAMPLES records made at random.

    Source: Avro specification 1.11, "Schema Resolution".
    """
    new, old = fastavro.parse_schema(dict(reader)), fastavro.parse_schema(dict(writer))
    state = random.getstate()
    random.seed(SEED)  # generate_many draws from the module's generator
    try:
        for sample in generate_many(old, SAMPLES):
            body = io.BytesIO()
            fastavro.schemaless_writer(body, old, sample)
            body.seek(0)
            try:
                fastavro.schemaless_reader(body, old, new)
            except Exception as error:  # whatever it raises, it cannot be read
                return f"{type(error).__name__}: {error}"
            if body.read(1):
                return "bytes are left over"
    finally:
        random.setstate(state)
    return None


def add(directory: Path | None = None, schemas: Path | None = None) -> list[Path]:
    """Append a version for each schema that differs from its newest one; returns the files written.

    Raises Refused, with nothing written, where one could not read an older version.
    """
    source, target = schemas or schema_directory(), directory or history_directory()
    wanted: dict[Path, str] = {}
    refused = []
    for record, file in SCHEMA_FILES.items():
        text = (source / f"{file}.avsc").read_text(encoding="utf-8")
        current, known = json.loads(text), versions(record, target)
        if known and canonical_text(known[-1]) == canonical_text(current):
            continue
        for number, old in enumerate(known, start=1):
            problem = backward_problem(current, old)
            if problem:
                refused.append(f"{file}.avsc cannot read version {number}: {problem}")
        wanted[target / f"{NAMESPACE}.{record}" / f"{len(known) + 1}.avsc"] = text
    if refused:
        raise Refused("; ".join(refused))
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(wanted)


def main(argv: list[str]) -> int:
    """`add`: append what has changed. 2 where it is refused."""
    if argv != ["add"]:
        print("usage: python -m gpuledger.contract.history add", file=sys.stderr)
        return 2
    try:
        for path in add():
            print(path.relative_to(schema_directory()))
    except GpuledgerError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
