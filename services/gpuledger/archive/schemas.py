"""The schemas that archived records were written with: an archive is read without the registry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpuledger.archive.store import Store
from gpuledger.bus import Incoming, SchemaRegistry
from gpuledger.bus.registry import UNKNOWN_SCHEMA
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.wire import unframe


class SchemaKeeper:
    """Writes down each schema that a record names, before the record is archived."""

    def __init__(self, store: Store, registry: SchemaRegistry) -> None:
        self._store = store
        self._registry = registry
        self._kept: set[int] = set()

    def keep(self, records: Iterable[Incoming]) -> None:
        """Keep the schemas of these records. What has no frame or an unknown id is archived as it is.

        Raises RegistryUnavailable, StoreUnavailable.
        """
        for schema_id in {found for record in records if (found := _schema_id(record)) is not None}:
            if schema_id in self._kept:
                continue
            try:
                text = self._registry.schema_text(schema_id)
            except BadRecord:
                continue
            self._store.put(_name(schema_id), text.encode())
            self._kept.add(schema_id)


class ArchivedSchemas:
    """Looks schemas up in an archive."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Mapping[str, Any] | None] = {}

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """See bus.log.Schemas."""
        if schema_id not in self._known:
            try:
                self._known[schema_id] = json.loads(self._store.get(_name(schema_id)))
            except (FileNotFoundError, ValueError):
                self._known[schema_id] = None
        found = self._known[schema_id]
        if found is None:
            raise BadRecord(UNKNOWN_SCHEMA, f"the archive holds no schema {schema_id}")
        return found


def _schema_id(record: Incoming) -> int | None:
    try:
        return unframe(record.value or b"")[0]
    except BadRecord:
        return None


def _name(schema_id: int) -> str:
    return f"schemas/{schema_id:010d}.json"
