"""Where the records of a window are read: Kafka, or an archive of it."""

from __future__ import annotations

from typing import Self

from gpuledger.archive.log import ArchiveLog
from gpuledger.archive.schemas import ArchivedSchemas
from gpuledger.archive.store import open_store
from gpuledger.bus import BusAccess, PartitionReader, SchemaRegistry
from gpuledger.bus.log import Log, Schemas

CLIENT = "gpuledger-explain"


class Sources:
    """The log and its schemas; use it in a ``with``. Owned by one thread."""

    log: Log
    schemas: Schemas

    def __init__(self, bus: BusAccess, archive: str | None = None) -> None:
        self._opened: list[PartitionReader | SchemaRegistry] = []
        if archive is None:
            reader, registry = PartitionReader(bus, CLIENT), SchemaRegistry(bus)
            self.log, self.schemas = reader, registry
            self._opened = [reader, registry]
        else:
            store = open_store(archive)
            self.log, self.schemas = ArchiveLog(store), ArchivedSchemas(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._opened:
            opened.close()
